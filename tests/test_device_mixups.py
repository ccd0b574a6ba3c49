"""Tensors of two devices in one call: accepted or refused as a GPU does.

`golden/device_mixups.json` has what a GPU did in each case, device words replaced.
"""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

RECORD = Path(__file__).parent / "golden" / "device_mixups.json"
RECORDED = json.loads(RECORD.read_text())


def c(*shape, dtype=torch.float32):
    """A tensor of the CPU with 1, 2, 3, … in it; for bool every second is true."""
    values = torch.arange(1, math.prod(shape) + 1)
    if dtype == torch.bool:
        values = values % 2 == 1
    return values.to(dtype).reshape(shape)


def x(*shape, dtype=torch.float32):
    """The same on the device."""
    return c(*shape, dtype=dtype).to("openreg")


def number(value, device):
    return torch.tensor(value, device=device)


def index(*values, device):
    return torch.tensor(values, device=device)


def lstm():
    return nn.LSTM(2, 2).to("openreg")


CASES = {
    "add": lambda: x(2) + c(2),
    "add_device_scalar_to_cpu": lambda: c(2) + number(3.0, "openreg"),
    "add_inplace_on_cpu": lambda: c(2).add_(x(2)),
    "addcmul": lambda: torch.addcmul(x(2), x(2), c(2)),
    "allclose": lambda: torch.allclose(x(2), c(2)),
    "assign_grad": lambda: setattr(nn.Parameter(x(2)), "grad", c(2)),
    "backward_cpu_gradient": lambda: (nn.Parameter(x(2)) * 2).backward(c(2)),
    "batch_norm_cpu_stats": lambda: F.batch_norm(
        x(2, 2), torch.zeros(2), torch.ones(2), training=True
    ),
    "bmm": lambda: torch.bmm(x(1, 2, 2), c(1, 2, 2)),
    "cat": lambda: torch.cat([x(2), c(2)]),
    "conv2d_cpu_input": lambda: F.conv2d(c(1, 1, 4, 4), x(1, 1, 2, 2)),
    "copy_from_cpu": lambda: x(2).copy_(c(2)),
    "copy_to_cpu": lambda: c(2).copy_(x(2)),
    "dot": lambda: torch.dot(x(2), c(2)),
    "einsum": lambda: torch.einsum("ij,jk->ik", x(2, 2), c(2, 2)),
    "embedding": lambda: F.embedding(index(0, 1, device="cpu"), x(4, 2)),
    "embedding_cpu_weight": lambda: F.embedding(index(0, 1, device="openreg"), c(4, 2)),
    "eq": lambda: x(2) == c(2),
    "equal": lambda: torch.equal(x(2), c(2)),
    "foreach_add": lambda: torch._foreach_add([x(2)], [c(2)]),
    "foreach_norm_mixed": lambda: len(torch._foreach_norm([x(2), c(2)])),
    "gather": lambda: torch.gather(x(4), 0, index(0, 1, device="cpu")),
    "index_add_source": lambda: x(4).index_add_(0, index(0, 1, device="openreg"), c(2)),
    "index_device_index_on_cpu": lambda: c(4)[index(0, 2, device="openreg")],
    "index_device_mask_on_cpu": lambda: c(4)[x(4, dtype=torch.bool)],
    "index_put_cpu_scalar": lambda: x(4).index_put_(
        (index(0, device="openreg"),), number(9.0, "cpu")
    ),
    "layer_norm_cpu_weight": lambda: F.layer_norm(x(2, 2), (2,), c(2), c(2)),
    "lerp": lambda: torch.lerp(x(2), x(2), c(2)),
    "linalg_solve": lambda: torch.linalg.solve(torch.eye(2, device="openreg"), c(2, 2)),
    "linear_cpu_bias": lambda: F.linear(x(2, 2), x(2, 2), c(2)),
    "linear_cpu_input": lambda: nn.Linear(2, 2).to("openreg")(c(2, 2)),
    "linear_module_on_cpu": lambda: nn.Linear(2, 2)(x(2, 2)),
    "load_state_dict_across": lambda: str(
        nn.Linear(2, 2).to("openreg").load_state_dict(nn.Linear(2, 2).state_dict())
    ),
    "lstm_hidden": lambda: lstm()(x(1, 1, 2), (torch.zeros(1, 1, 2),) * 2),
    "lstm_input": lambda: lstm()(c(1, 1, 2)),
    "lt": lambda: x(2) < c(2),
    "matmul_vector": lambda: torch.matmul(x(2, 2), c(2)),
    "meta_and_device": lambda: x(2) + torch.empty(2, device="meta"),
    "mm": lambda: torch.mm(x(2, 2), c(2, 2)),
    "modules_on_two_devices": lambda: nn.Sequential(
        nn.Linear(2, 2), nn.Linear(2, 2).to("openreg")
    )(c(2, 2)),
    "mse_loss": lambda: F.mse_loss(x(2), c(2)),
    "mul_cpu_1_element_1d": lambda: x(2) * c(1),
    "nll_loss_cpu_weight": lambda: F.nll_loss(
        x(2, 2), index(0, 1, device="openreg"), c(2)
    ),
    "out_cpu_add": lambda: torch.add(x(2), x(2), out=c(2)),
    "out_cpu_mm": lambda: torch.mm(x(2, 2), x(2, 2), out=c(2, 2)),
    "out_cpu_sort": lambda: torch.sort(x(2), out=(c(2), c(2, dtype=torch.int64))),
    "result_type": lambda: str(torch.result_type(x(2), c(2))),
    "scatter_src": lambda: x(4).scatter_(0, index(0, 1, device="openreg"), c(2)),
    "sdpa": lambda: F.scaled_dot_product_attention(
        x(1, 1, 2, 8), c(1, 1, 2, 8), x(1, 1, 2, 8)
    ),
    "set_cpu_storage": lambda: x(2).set_(c(2).untyped_storage()),
    "set_cpu_tensor": lambda: x(2).set_(c(2)),
    "stack": lambda: torch.stack([x(2), c(2)]),
    "sub_cpu_scalar_first": lambda: number(3.0, "cpu") - x(2),
    "take": lambda: torch.take(x(4), index(0, 1, device="cpu")),
    "where": lambda: torch.where(x(2, dtype=torch.bool), c(2), x(2)),
    "where_cpu_condition": lambda: torch.where(c(2, dtype=torch.bool), x(2), x(2)),
}


def told(value):
    """A text or a value as the record has it."""
    if isinstance(value, torch.Tensor):
        what = [str(value.dtype), list(value.shape), told(str(value.device))]
        return {"tensor": what, "values": value.tolist()}
    if isinstance(value, str):
        line = value.strip().splitlines()[0]
        return re.sub("openreg|privateuseone|privateuse1", "<dev>", line, flags=re.I)
    return value


@pytest.mark.parametrize("name", CASES)
def test_two_devices_meet_as_they_do_on_a_gpu(name):
    try:
        outcome = {"ok": told(CASES[name]())}
    except RuntimeError as error:
        outcome = {"raised": type(error).__name__, "msg": told(str(error))}
    assert outcome == RECORDED[name]


def test_every_recorded_case_is_run():
    assert set(CASES) == set(RECORDED)


# Nothing was recorded of two GPUs, but the rules are the same.
@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a.add_(b),
        lambda a, b: torch.add(a, a, out=b),
        lambda a, b: a + b[0],  # not even a number
        lambda a, b: torch.dot(a, b),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: a[b.long()],
        lambda a, b: torch._foreach_add([a], [b]),
    ],
)
def test_two_devices_of_ours_do_not_mix(call):
    a, b = torch.ones(3, device="openreg:0"), torch.ones(3, device="openreg:1")
    with pytest.raises(RuntimeError, match="device"):
        call(a, b)
    assert a.tolist() == b.tolist() == [1, 1, 1]


def test_a_number_of_the_cpu_goes_with_either_device():
    for device in ("openreg:0", "openreg:1"):
        sum = torch.ones(2, device=device) + torch.tensor(2.0)
        assert sum.device == torch.device(device)
        assert sum.tolist() == [3, 3]


def test_work_runs_on_the_device_of_the_tensors_not_on_the_current_one():
    a = torch.arange(3.0, device="openreg:1")
    assert torch.openreg.current_device() == 0
    assert (a * a).sum().device == a.device
    assert torch.openreg.current_device() == 0
