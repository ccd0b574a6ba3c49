"""Calls that fail: the CPU's words, in the call, and nothing is changed by them."""

import re

import pytest
import torch
from torch.nn import functional as F

# Each fails because of its arguments, not of the numbers in a tensor, so it fails in
# the call itself, however the work is scheduled. Keys are for the test's name.
CALLS = {
    "add shapes": "ones(3) + ones(4)",
    "add_ shape": "ones(3).add_(ones(2, 3))",
    "add_ dtype": "ones(3, dtype=torch.int64).add_(0.5)",
    "addmm shapes": "torch.addmm(ones(2), ones(2, 3), ones(4, 2))",
    "addmm after a right one": "[torch.addmm(x, ones(2, 3), ones(3, 2)) for x in (ones(2), ones(3))]",
    "argmax empty": "torch.argmax(ones(0))",
    "baddbmm dtypes": "torch.baddbmm(ones(1, 2, 2), ones(1, 2, 2), doubles(1, 2, 2))",
    "bmm dtypes": "torch.bmm(ones(1, 2, 2), doubles(1, 2, 2))",
    "bmm shapes": "torch.bmm(ones(1, 2, 3), ones(1, 2, 3))",
    "cat dimension": "torch.cat([ones(2), ones(2)], dim=1)",
    "cat shapes": "torch.cat([ones(2, 2), ones(3, 3)])",
    "cholesky": "torch.linalg.cholesky(ones(2, 3))",
    "clamp without bounds": "ones(3).clamp()",
    "conv2d channels": "F.conv2d(ones(1, 2, 4, 4), ones(1, 3, 2, 2))",
    "cross": "torch.linalg.cross(ones(4), ones(4))",
    "cumsum dimension": "ones(3).cumsum(2)",
    "dot dtypes": "torch.dot(ones(2), doubles(2))",
    "expand": "ones(3).expand(2, 4)",
    "fractional_max_pool2d": "[fractional2d(ones(2, 1, 5, 5), 2, 2, ones(n, 1, 2) / 2) for n in (2, 1)]",
    "fractional_max_pool3d": "[fractional3d(ones(2, 1, 5, 5, 5), 2, 2, ones(n, 1, 3) / 2) for n in (2, 1)]",
    "floor of complex": "torch.floor(ones(2, dtype=torch.complex64))",
    "gather shapes": "torch.gather(ones(2, 2), 0, ones(3, 3, dtype=torch.int64))",
    "gather dtype": "torch.gather(ones(2, 2), 0, ones(2, 2))",
    "gather of float8": "torch.gather(ones(2, dtype=torch.float8_e5m2), 0, zeros(2))",
    "gelu": "F.gelu(ones(3), approximate='foo')",
    "index dtype": "ones(3)[ones(2)]",
    "index shapes": "ones(3, 3)[ones(2).long(), ones(3).long()]",
    "index_add of float8": "ones(2, dtype=torch.float8_e5m2).index_add(0, zeros(2), ones(2, dtype=torch.float8_e5m2))",
    "index_copy of float8": "ones(2, dtype=torch.float8_e5m2).index_copy(0, zeros(2), ones(2, dtype=torch.float8_e5m2))",
    "index_reduce of bool": "ones(2, dtype=torch.bool).index_reduce(0, zeros(2), ones(2, dtype=torch.bool), 'amin')",
    "index_reduce source": "ones(4, 3).index_reduce(0, zeros(2), ones(1, 3), 'prod')",
    "index_select": "torch.index_select(ones(3), 0, ones(2))",
    "kthvalue": "torch.kthvalue(ones(3), 5)",
    "layer_norm shape": "F.layer_norm(ones(2, 3), (4,))",
    "linalg.det of half": "torch.linalg.det(ones(3, 3, dtype=torch.half))",
    **{
        f"linalg.{name} asked to check": f"[torch.linalg.{name}(ones(n, n), check_errors=True) for n in (1, 2)]"
        for name in ("cholesky_ex", "inv_ex", "lu_factor_ex")
    },
    "linalg.solve_ex asked to check": "[torch.linalg.solve_ex(ones(n, n), ones(n, n), check_errors=True) for n in (1, 2)]",
    "linalg.svd of no numbers": "[torch.linalg.svd(ones(2, 2) * x) for x in (1, float('nan'))]",
    "linear dtypes": "F.linear(ones(2, 3), doubles(4, 3))",
    "logical_not out": "torch.logical_not(ones(3), out=ones(3)[:1].expand(3))",
    "masked_fill dtype": "ones(3).masked_fill(ones(3), 0)",
    "max dimension": "torch.max(ones(3), 4)",
    "max_pool2d": "F.max_pool2d(ones(1, 1, 2, 2), 5)",
    "mm dtypes": "torch.mm(ones(2, 2), doubles(2, 2))",
    "mm integers": "torch.mm(ones(2, 2), ones(2, 2, dtype=torch.int64))",
    "mm shapes": "torch.mm(ones(2, 3), ones(2, 3))",
    "mul_ expanded": "ones(1).expand(3).mul_(2)",
    "mv": "torch.mv(ones(2, 2), doubles(2))",
    "nll_loss weight dtype": "F.nll_loss(ones(2, 2), zeros(2), doubles(2))",
    "nll_loss of bool": "F.nll_loss(ones(2, 2, dtype=torch.bool), zeros(2))",
    "out dtype": "torch.add(ones(2), ones(2), out=ones(2, dtype=torch.int64))",
    "out overlap": "torch.add(ones(3), ones(3), out=ones(1).expand(3))",
    "overlap": "(lambda x: torch.mul(x[:-1], 2, out=x[1:]))(ones(4))",
    "pow of integers": "ones(3, dtype=torch.int64) ** -1",
    "renorm of bool": "torch.renorm(ones(2, 2, dtype=torch.bool), 1, 0, 5)",
    "repeat": "ones(3).repeat()",
    "reshape": "ones(3).reshape(2, 2)",
    "scatter shapes": "ones(2).scatter(0, ones(3, dtype=torch.int64), ones(2))",
    "scatter_add of float8": "ones(2, dtype=torch.float8_e5m2).scatter_add(0, zeros(2), ones(2, dtype=torch.float8_e5m2))",
    "scatter_reduce of complex": "ones(2, dtype=torch.complex64).scatter_reduce(0, zeros(2), ones(2, dtype=torch.complex64), 'amax')",
    "softmax dimension": "torch.softmax(ones(3), 3)",
    "softmax of integers": "torch.softmax(ones(3, dtype=torch.int64), 0)",
    "sort dimension": "torch.sort(ones(3), 2)",
    "stack": "torch.stack([ones(2), ones(3)])",
    "topk": "torch.topk(ones(3), 9)",
    "tril": "torch.tril(ones(3))",
    "where shapes": "torch.where(ones(2) > 0, ones(3), ones(4))",
}

# Runs all calls on the CPU and on openreg and prints those that fare differently, or
# after which the device is not well. Large tensors and a held stream are not needed:
# the schedule says what is queued.
CHILD = """
import sys, torch
from torch.nn import functional as F

def outcome(call, device):
    def ones(*shape, dtype=torch.float32):
        return torch.ones(*shape, dtype=dtype, device=device)
    def doubles(*shape):
        return ones(*shape, dtype=torch.float64)
    def zeros(*shape):
        return torch.zeros(*shape, dtype=torch.int64, device=device)
    scope = dict(
        torch=torch, F=F, ones=ones, doubles=doubles, zeros=zeros,
        fractional2d=torch.ops.aten.fractional_max_pool2d,
        fractional3d=torch.ops.aten.fractional_max_pool3d,
    )
    try:
        eval(call, scope)
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}".replace(device, "cpu")
    return "no error"

calls = {calls!r}
for name, call in [*calls.items(), *calls.items()]:  # twice: a call may be learnt from
    expected, found = outcome(call, "cpu"), outcome(call, "openreg:0")
    if found != expected or expected == "no error":
        print(name, "\\n  cpu    ", expected, "\\n  openreg", found)
    try:
        torch.openreg.synchronize()
    except RuntimeError as error:
        print(name, "broke the device")
        break
"""


@pytest.mark.parametrize("schedule", ["auto", "async", "adversarial"])
def test_wrong_arguments_are_reported_in_the_call_and_the_device_stays_well(
    run_python, schedule
):
    code = CHILD.format(calls=CALLS)
    assert run_python(code, OPENREG_SCHEDULE=schedule) == ""


# --- nothing is left changed --------------------------------------------------


def ones(*shape, **options):
    return torch.ones(*shape, device="openreg", **options)


def test_tensors_of_a_failed_call_are_as_before():
    x, out = ones(2, 3), torch.full((5,), 7.0, device="openreg")
    calls = [
        lambda: torch.mm(x, x, out=out),
        lambda: torch.add(x, ones(7), out=out),
        lambda: torch.cat([x, out], out=out),
        lambda: x.add_(ones(5)),
        lambda: x.resize_(-1),
        lambda: x.set_(torch.ones(3)),
        lambda: x.index_fill_(5, torch.zeros(1).long(), 3),
        lambda: x.copy_(ones(9)),
    ]
    for call in calls:
        with pytest.raises((RuntimeError, IndexError)):
            call()
        assert x.tolist() == [[1] * 3] * 2
        assert out.tolist() == [7] * 5


def test_a_failed_call_keeps_no_memory_and_no_device():
    x = ones(2, 3)
    with pytest.raises(RuntimeError):
        torch.mm(x, x)
    before = torch.openreg.memory_allocated()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        with pytest.raises(RuntimeError):
            torch.ones(3, device="openreg:1") + torch.ones(4, device="openreg:1")
    assert torch.openreg.memory_allocated() == before
    assert torch.openreg.current_device() == 0


def test_a_failed_random_call_draws_nothing():
    torch.openreg.manual_seed(3)
    state = torch.openreg.get_rng_state()
    with pytest.raises(RuntimeError):
        ones(3).uniform_(5, 1)
    with pytest.raises(RuntimeError):
        torch.multinomial(ones(3), 9)
    assert torch.equal(torch.openreg.get_rng_state(), state)


def test_an_error_in_backward_reaches_the_caller():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("on purpose")

    x = ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="on purpose"):
        Fails.apply(x).sum().backward()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_changed_tensors_are_noticed_by_autograd():
    x = ones(3, requires_grad=True)
    y = x.exp()  # needs its result for the gradient
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_numbers_of_a_tensor_are_checked_where_the_operator_waits_anyway():
    singular = torch.zeros(2, 2, device="openreg")
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(singular)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(-torch.eye(2, device="openreg"))
    assert F.relu(singular).tolist() == [[0, 0], [0, 0]]


# --- bad numbers in a tensor --------------------------------------------------

TRY = """
def run(call):
    x = torch.arange(4.0, device="openreg")
    good, bad = (torch.tensor([i], device="openreg") for i in (1, 99))
    call(x, good)
    m.synchronize()
    call(x, bad)
    m.synchronize()
"""
BAD_INDEX = {
    "gather": "torch.gather(x, 0, i)",
    "index": "x[i]",
    "index_add_": "x.index_add_(0, i, i.float())",
    "index_copy_": "x.index_copy_(0, i, i.float())",
    "scatter_": "x.scatter_(0, i, 1.0)",
    "index_fill_": "x.index_fill_(0, i, 1.0)",
    "index_put_": "x.index_put_((i,), i.float())",
    "index_select": "x.index_select(0, i)",
    "put_": "x.put_(i, i.float())",
    "take": "x.take(i)",
}


@pytest.mark.parametrize("operator", BAD_INDEX)
def test_a_bad_index_breaks_the_device_on_an_idle_stream_too(operator, fork_python):
    calls = [f"run(lambda x, i: {call})" for call in BAD_INDEX.values()]
    told = dict(zip(BAD_INDEX, fork_python(calls, before=TRY), strict=True))
    assert told[operator].startswith(
        "AcceleratorError: OpenReg error: device-side assert triggered"
    )


def test_a_bad_index_is_reported_on_stderr_once(run_python):
    code = """
import torch
x, i = torch.ones(4, device="openreg"), torch.tensor([9, 7], device="openreg")
x[i]
try:
    torch.openreg.synchronize()
except torch.AcceleratorError:
    pass
"""
    lines = run_python(code, check=False).stderr.splitlines()
    told = [line for line in lines if "Assertion" in line]
    assert len(told) == 1
    assert re.fullmatch(
        r"openreg: 'aten::index.Tensor' in stream \d+ of device 0: Assertion failed: "
        "index 9 is out of bounds for dimension 0 with size 4",
        told[0],
    )


CLAMP = """
def run():
    x = torch.ones(3, dtype=torch.bool, device="openreg")
    torch.clamp_min(x, 1)
    m.synchronize()
    try:
        torch.clamp_min(x, True)
    finally:
        m.synchronize()
"""


def test_a_kernel_proven_for_one_number_is_not_for_another(fork_python):
    (told,) = fork_python(["run()"], before=CLAMP)
    assert told.startswith("NotImplementedError") and "for 'Bool'" in told


ILLEGAL_ADDRESS = """
import torch
good = torch.ones(4, device="openreg")
torch.openreg.synchronize()
here = torch.device("openreg:0")
storage = torch._C._construct_storage_from_data_pointer(0x1000, here, 4096)
torch.empty(0, device="openreg").set_(storage).add_(1.0)  # as on a GPU, this returns
for call in (torch.openreg.synchronize, good.cpu, torch.openreg.synchronize):
    try:
        call()
    except torch.AcceleratorError as error:
        print(str(error).splitlines()[0])
        assert "0x1000 is not memory of an openreg device" in str(error)
"""


def test_a_kernel_on_an_illegal_address_breaks_the_device(run_python):
    told = run_python(ILLEGAL_ADDRESS).splitlines()
    assert told == ["OpenReg error: an illegal memory access was encountered"] * 3
