"""What is not in ``torch._C``: names of PyTorch that are there and know better.

A PyTorch without CUDA has decided some things in its C++ code (storages of CUDA,
DLPack), and asks NVIDIA's libraries for others.
"""

import functools
from typing import Any, NoReturn

import torch

from torch_openreg import _C, openreg
from torch_openreg._on_import import on_import
from torch_openreg.openreg import _sharing

from . import _groups, _libraries, _refusals, _triton


def install() -> None:
    """After torch was imported."""
    torch.version.cuda = _libraries.CUDA_VERSION
    _install_storages()
    _install_tensor_types()
    _refuse_foreign_views()
    _install_figures()
    _install_activities()
    _install_plan_caches()
    on_import("torch.distributed.distributed_c10d", _groups.install)
    on_import("torch.distributed._symmetric_memory", _groups.install_symmetric_memory)
    on_import("torch.distributed.rpc.options", _groups.refuse_device_maps)
    on_import("torch.utils.cpp_extension", _refuse_extensions)
    _triton.install()
    on_import("torch._native", _leave_native_kernels_out)
    torch.cuda._utils._nvrtc_compile = _refuse_kernel


# --- storages and tensor types ------------------------------------------------

_new_storage = torch.UntypedStorage.__new__


def _new_untyped_storage(cls: type, *args: Any, **kwargs: Any) -> Any:
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cuda":
        return _new_storage(cls, *args, **kwargs)
    (content,) = args or (0,)
    if isinstance(content, int):
        made = torch.empty(content, dtype=torch.uint8, device=device)
    else:
        made = torch.tensor(content, dtype=torch.uint8, device=device)
    return made.untyped_storage()


_resize_storage = torch.UntypedStorage.resize_


def _resize(self: Any, size: int) -> Any:
    if not self.is_cuda:
        return _resize_storage(self, size)
    _C._resizeStorage(self, size)
    return self


def _share(self: Any) -> tuple[Any, ...]:
    """What reductions.reduce_tensor() sends: a message takes the place of a handle,
    and of the counter that a receiver who knows the memory already gives back."""
    torch.cuda._lazy_init()
    message = _C._sendStorage(self)
    return self.device.index, message, self.nbytes(), 0, message, 0, b"", False


def _new_shared(cls: type, device: int, message: bytes, *others: Any) -> Any:
    return _sharing._rebuild_storage(torch.device("cuda", device), message)


def _release_shared(cls: type, message: bytes, *others: Any, **options: Any) -> None:
    _C._receiveStorage(message)


def _install_storages() -> None:
    storage = torch.UntypedStorage
    storage.__new__ = staticmethod(_new_untyped_storage)
    storage.resize_ = _resize
    storage._share_cuda_ = _share
    storage._new_shared_cuda = classmethod(_new_shared)
    storage._release_ipc_counter_cuda = classmethod(_release_shared)


def _install_tensor_types() -> None:
    """torch.cuda.FloatTensor and its kind are there and refuse to make tensors."""
    for name in openreg.__all__:
        if name.endswith("Tensor"):
            setattr(torch.cuda, name, getattr(openreg, name))
    torch.set_default_tensor_type = _set_default_tensor_type


_torch_set_default_tensor_type = torch.set_default_tensor_type


@functools.wraps(_torch_set_default_tensor_type)
def _set_default_tensor_type(t: Any) -> None:
    kind = torch._import_dotted_name(t) if isinstance(t, str) else t
    if getattr(kind, "is_cuda", False):
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda")
    else:
        _torch_set_default_tensor_type(kind)
        torch.set_default_device(None)


# --- memory that is no GPU's --------------------------------------------------

_INSTEAD = "copy it to the host first, with tensor.cpu()"


def _not_for_cuda(export: Any) -> Any:
    @functools.wraps(export)
    def call(data: Any, *args: Any, **kwargs: Any) -> Any:
        if data.is_cuda:
            what = "DLPack of a CUDA tensor"
            raise BufferError(str(_refusals.refusal(what, _INSTEAD)))
        return export(data, *args, **kwargs)

    return call


def _array_interface(self: Any) -> NoReturn:
    """An AttributeError, so that libraries that look for the interface find none."""
    raise AttributeError(
        str(_refusals.refusal("__cuda_array_interface__", _INSTEAD))
        if self.is_cuda
        else "Can't get __cuda_array_interface__ on non-CUDA tensor type: "
        f"{self.type()} If CUDA data is required use tensor.cuda() to copy tensor to "
        "device memory."
    )


def _refuse_foreign_views() -> None:
    for name in ("_to_dlpack", "_to_dlpack_versioned"):
        setattr(torch._C, name, _not_for_cuda(getattr(torch._C, name)))
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = torch._C._to_dlpack
    torch.Tensor.__cuda_array_interface__ = property(_array_interface)


# --- what NVIDIA's management library tells -----------------------------------

_NVML = "NVML reads the sensors of a GPU, and there is none"


def _install_figures() -> None:
    for name in (
        "clock_rate",
        "device_memory_used",
        "list_gpu_processes",
        "memory_usage",
        "utilization",
    ):
        setattr(torch.cuda, name, getattr(openreg, name))
    torch.cuda.memory.list_gpu_processes = openreg.list_gpu_processes
    torch.cuda.power_draw = _refusals.refuse("torch.cuda.power_draw()", _NVML)
    torch.cuda.temperature = _refusals.refuse("torch.cuda.temperature()", _NVML)
    # A machine may have both NVIDIA's driver and this CUDA.
    torch.cuda._raw_device_count_nvml = lambda: -1
    torch.cuda._raw_device_uuid_nvml = lambda: None


def _install_activities() -> None:
    """The profiler's rows of the device are there, and in C++ code it is settled that
    there are none of CUDA."""
    known = torch.autograd._supported_activities
    cuda = torch.profiler.ProfilerActivity.CUDA
    for module in (torch._C._autograd, torch.autograd, torch.autograd.profiler):
        module._supported_activities = lambda: known() | {cuda}


def _install_plan_caches() -> None:
    """No plan of a Fourier transform is kept; the bound on their number is."""
    cache = torch.backends.cuda.cuFFTPlanCache
    cache.size = property(lambda self: 0)
    cache.max_size = 4096
    cache.clear = lambda self: None


# --- code for a GPU -----------------------------------------------------------

_refuse_kernel = _refusals.refuse(
    "torch.cuda._compile_kernel()", _refusals.CODE_FOR_A_GPU
)


def _refuse_extensions() -> None:
    from torch.utils import cpp_extension

    # Whatever compiles or links for CUDA asks where CUDA is.
    cpp_extension._join_cuda_home = _refusals.refuse(
        "an extension with CUDA sources", _refusals.CODE_FOR_A_GPU
    )


def _leave_native_kernels_out() -> None:
    """Where Triton is installed, PyTorch would compute some operators of a GPU with it."""
    from torch._native.registry import deregister_op_overrides

    deregister_op_overrides(disable_dispatch_keys="CUDA")
