"""The host reads, converts, saves and shares tensors of the device."""

import copy
import io
import pickle

import numpy as np
import torch
from misuse import DEVICE, c, m, no_device, no_index, x
from torch import nn


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def shares(convert):
    tensor = x(2)
    return convert(tensor).data_ptr() == tensor.data_ptr()


def fetched(tensor):
    copied = tensor.to("cpu", non_blocking=True)
    m.synchronize()
    return copied


def array_interface(tensor):
    return getattr(tensor, f"__{DEVICE}_array_interface__")


CALLS = {
    "numpy": lambda: x(2).numpy(),
    "numpy_force": lambda: x(2).numpy(force=True).tolist(),
    "np_asarray": lambda: np.asarray(x(2)),
    "np_array_of_list": lambda: np.array([x(1), x(1)]),
    "np_from_dlpack": lambda: np.from_dlpack(x(2)),
    "array_interface": lambda: hasattr(x(2), "__array_interface__"),
    "device_array_interface": lambda: sorted(array_interface(x(2))),
    "device_array_interface_of_cpu": lambda: array_interface(c(2)),
    "device_array_interface_requires_grad": lambda: sorted(
        array_interface(x(2).requires_grad_())
    ),
    "frombuffer_to": lambda: torch.frombuffer(bytearray(8), dtype=torch.float32).to(
        DEVICE
    ),
    "from_numpy_to": lambda: torch.from_numpy(np.ones(2, dtype=np.float32)).to(DEVICE),
    "as_tensor_numpy": lambda: torch.as_tensor(
        np.ones(2, dtype=np.float32), device=DEVICE
    ),
    "as_tensor_to_device": lambda: torch.as_tensor(c(2), device=DEVICE),
    "as_tensor_to_cpu": lambda: torch.as_tensor(x(2), device="cpu"),
    "as_tensor_same": lambda: shares(torch.as_tensor),
    "asarray_copy_false_across": lambda: torch.asarray(x(2), device="cpu", copy=False),
    "tensor_of_device_tensor": lambda: torch.tensor(x(2)),
    "tensor_of_list_of_scalars": lambda: torch.tensor(
        [torch.tensor(1.0, device=DEVICE), torch.tensor(2.0, device=DEVICE)]
    ),
    "tensor_to_cpu_of_device": lambda: torch.tensor(x(2), device="cpu"),
    "legacy_constructor": lambda: m.FloatTensor([1.0, 2.0]),
    "legacy_cpu_constructor_of_device": lambda: torch.FloatTensor(x(2)),
    "type_string": lambda: x(2).type(),
    "method_to_device": lambda: getattr(c(2), DEVICE)(),
    "method_to_bad_device": lambda: getattr(c(2), DEVICE)(no_index()),
    "method_to_cpu_device": lambda: getattr(c(2), DEVICE)("cpu"),
    "item": lambda: x(1).item(),
    "item_multi": lambda: x(2).item(),
    "item_empty": lambda: torch.empty(0, device=DEVICE).item(),
    "bool_multi": lambda: bool(x(2)),
    "bool_one": lambda: bool(x(1)),
    "int_of_float": lambda: int(x(1)),
    "float_multi": lambda: float(x(2)),
    "index_protocol": lambda: [10, 20, 30][torch.tensor(1, device=DEVICE)],
    "range_of_tensor": lambda: list(range(torch.tensor(3, device=DEVICE))),
    "iter_0d": lambda: iter(torch.tensor(3, device=DEVICE)),
    "len_0d": lambda: len(torch.tensor(3, device=DEVICE)),
    "format_0d": lambda: f"{torch.tensor(1.5, device=DEVICE):.2f}",
    "repr_float": lambda: repr(x(3)),
    "repr_bf16": lambda: repr(x(3, dtype=torch.bfloat16)),
    "repr_grad": lambda: repr(x(2).requires_grad_() * 2),
    "repr_parameter": lambda: repr(nn.Parameter(x(2))),
    "apply_": lambda: x(2).apply_(lambda v: v + 1),
    "storage_getitem": lambda: x(2).untyped_storage()[0],
    "storage_tolist": lambda: x(1).untyped_storage().tolist(),
    "storage_device": lambda: str(x(1).untyped_storage().device),
    "storage_nbytes": lambda: [
        x(3).untyped_storage().nbytes(),
        x(1).untyped_storage().nbytes(),
    ],
    "storage_cpu": lambda: x(1).untyped_storage().cpu().tolist(),
    "storage_share_fd_cpu": lambda: len(x(1).untyped_storage()._share_fd_cpu_()),
    "storage_pin": lambda: x(1).untyped_storage().pin_memory(),
    "is_shared": lambda: [x(2).is_shared(), c(2).is_shared()],
    "share_memory": lambda: x(2).share_memory_(),
    "module_share_memory": lambda: type(
        nn.Linear(2, 2).to(DEVICE).share_memory()
    ).__name__,
    "pin_memory_of_device": lambda: x(2).pin_memory(),
    "is_pinned_of_device": lambda: x(2).is_pinned(),
    "is_pinned_of_cpu": lambda: c(2).is_pinned(),
    "pin_memory_of_cpu": lambda: [
        c(2).pin_memory().is_pinned(),
        c(2).pin_memory()[1:].is_pinned(),
    ],
    "pin_memory_device_arg": lambda: c(2).pin_memory(DEVICE).is_pinned(),
    "empty_device_pinned": lambda: torch.empty(2, device=DEVICE, pin_memory=True),
    "pin_sparse": lambda: c(2, 2).to_sparse().pin_memory().is_pinned(),
    "to_cpu_non_blocking_noncontiguous": lambda: fetched(x(4, 4).t()[::2]),
    "empty_data_ptr": lambda: torch.empty(0, device=DEVICE).data_ptr(),
    "deepcopy": lambda: copy.deepcopy(x(2)),
    "deepcopy_nonleaf": lambda: copy.deepcopy(x(2).requires_grad_() * 2),
    "pickle": lambda: pickle.loads(pickle.dumps(x(2))),
    "load_to_cpu": lambda: torch.load(saved(x(2)), map_location="cpu"),
    "load_to_bad_index": lambda: torch.load(saved(x(2)), map_location=no_device()),
    "dlpack_device": lambda: [int(v) for v in x(2).__dlpack_device__()][1],
    "from_dlpack_shares": lambda: shares(torch.from_dlpack),
    "dlpack_requires_grad": lambda: x(2).requires_grad_().__dlpack__(),
    "dlpack_stream_zero": lambda: x(2).__dlpack__(stream=0),
    "dlpack_stream_string": lambda: x(2).__dlpack__(stream="s"),
    "dlpack_stream_of_cpu": lambda: c(2).__dlpack__(stream=1),
    "dlpack_bool": lambda: torch.from_dlpack(x(2, dtype=torch.bool)),
    "dlpack_to_cpu": lambda: torch.from_dlpack(x(2), device="cpu"),
    "from_file_to_device": lambda: torch.from_file("/dev/null", size=0, device=DEVICE),
    "normal_inplace_chain_print": lambda: str(torch.zeros(2, device=DEVICE).fill_(2)),
}
