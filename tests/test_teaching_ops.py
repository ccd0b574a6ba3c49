"""Operators that show, one each, the ways a backend adds its own."""

import gc

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

DTYPES = [
    torch.int8,
    torch.int64,
    torch.uint8,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]


def numbers(dtype=torch.float32, device="openreg"):
    x = torch.tensor([-3.5, -1.0, 0.0, 2.25])
    if dtype.is_complex:
        x = torch.complex(x, x.flip(0))
    if dtype == torch.uint8:
        x = x.abs()
    return x.to(dtype).to(device)


def doubles(*shape):
    """A leaf for gradcheck, away from zero, where abs has no derivative."""
    x = torch.rand(*shape, dtype=torch.float64) + 0.5
    return (x * torch.tensor([1, -1])).to("openreg").requires_grad_()


# --- aten::abs, a kernel for a stub -------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_abs_equals_the_cpus(dtype):
    expected = numbers(dtype, "cpu").abs()
    found = numbers(dtype).abs()
    assert found.device.type == "openreg"
    assert found.dtype == expected.dtype  # real for complex numbers
    assert torch.equal(found.cpu(), expected)


def test_abs_works_in_place_and_with_out():
    x = numbers()
    assert x.abs_() is x
    assert x.tolist() == [3.5, 1, 0, 2.25]

    out = torch.empty(4, device="openreg")
    assert torch.abs(numbers(), out=out) is out
    assert out.tolist() == [3.5, 1, 0, 2.25]
    out = torch.empty(0, device="openreg")
    assert torch.abs(numbers(), out=out).shape == (4,)
    out = torch.empty(4, device="openreg")
    torch.abs(numbers(torch.complex64), out=out)
    assert torch.equal(out.cpu(), numbers(torch.complex64, "cpu").abs())


def test_abs_takes_any_strides():
    x = torch.arange(-12.0, 12.0).view(4, 6)
    for view in (lambda y: y.t(), lambda y: y[::2, 1::2], lambda y: y[0].expand(3, 6)):
        found = view(x.openreg()).abs()
        assert torch.equal(found.cpu(), view(x).abs())
        assert found.stride() == view(x).abs().stride()


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_abs_refuses_an_output_of_another_dtype(device):
    out = torch.empty(4, dtype=torch.float64, device=device)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.abs(numbers(device=device), out=out)


def test_abs_of_bool_is_refused_in_the_call(run_python):
    code = """
import torch
try:
    torch.ones(4, dtype=torch.bool, device="openreg").abs()
except NotImplementedError as error:
    print("not implemented for 'Bool'" in str(error))
torch.openreg.synchronize()
"""
    assert run_python(code) == "True"


def test_abs_has_a_gradient():
    x = numbers().requires_grad_()
    x.abs().sum().backward()
    assert x.grad.tolist() == [-1, -1, 0, 1]


# --- openreg::custom_abs ------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_custom_abs_equals_abs(dtype):
    x = numbers(dtype)
    found = torch.ops.openreg.custom_abs(x)
    assert found.dtype == x.abs().dtype
    assert torch.equal(found.cpu(), x.abs().cpu())


def test_custom_abs_has_first_and_second_derivatives():
    assert gradcheck(torch.ops.openreg.custom_abs, (doubles(3, 2),))
    assert gradgradcheck(torch.ops.openreg.custom_abs, (doubles(3, 2),))


def test_custom_abs_knows_its_result_without_running():
    for dtype, real in (
        (torch.float32, torch.float32),
        (torch.complex64, torch.float32),
    ):
        meta = torch.empty(2, 3, dtype=dtype, device="meta")
        found = torch.ops.openreg.custom_abs(meta)
        assert (found.shape, found.dtype, found.device.type) == ((2, 3), real, "meta")

    with FakeTensorMode():
        x = torch.empty(2, 3, device="openreg")
        found = torch.ops.openreg.custom_abs(x)
        assert (found.shape, found.device) == ((2, 3), x.device)


def test_custom_abs_has_no_kernel_for_the_cpu():
    with pytest.raises(NotImplementedError, match="openreg::custom_abs"):
        torch.ops.openreg.custom_abs(torch.ones(3))


def test_custom_abs_passes_pytorchs_checks_of_an_operator():
    torch.library.opcheck(
        torch.ops.openreg.custom_abs,
        (numbers().requires_grad_(),),
        test_utils=("test_schema", "test_faketensor"),
    )


# --- aten::openreg_scale ------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64])
def test_scale_multiplies(dtype):
    found = torch.ops.aten.openreg_scale(numbers(dtype), 2.5)
    assert torch.equal(found.cpu(), numbers(dtype, "cpu") * 2.5)


def test_scale_has_a_gradient_and_a_meta_kernel():
    assert gradcheck(lambda x: torch.ops.aten.openreg_scale(x, -3), (doubles(3, 2),))
    x = torch.empty(2, 3, device="meta").t()
    found = torch.ops.aten.openreg_scale(x, 2)
    assert (found.shape, found.stride()) == ((3, 2), x.stride())


def test_scale_refuses_integers():
    with pytest.raises(RuntimeError, match="needs a floating-point or complex tensor"):
        torch.ops.aten.openreg_scale(numbers(torch.int64), 2)
    with pytest.raises(RuntimeError, match="needs a floating-point or complex tensor"):
        torch.ops.aten.openreg_scale(torch.ones(2, dtype=torch.int64, device="meta"), 2)


# --- autograd functions whose output is their input ---------------------------


def test_returning_the_input_halves_the_gradient():
    x = numbers().requires_grad_()
    y = torch.ops.openreg.custom_autograd_fn_returns_self(x)
    assert y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [0.5] * 4


def test_returning_a_view_halves_the_gradient():
    x = numbers().requires_grad_()
    y = torch.ops.openreg.custom_autograd_fn_aliasing(x)
    assert y is not x
    assert y._is_view() or y.data_ptr() == x.data_ptr()
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [0.5] * 4


BOTH = ["custom_autograd_fn_returns_self", "custom_autograd_fn_aliasing"]


@pytest.mark.parametrize("function", BOTH)
def test_both_work_without_a_gradient(function):
    x = numbers()
    y = getattr(torch.ops.openreg, function)(x)
    assert not y.requires_grad
    assert y.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("function", BOTH)
def test_both_work_in_inference_mode(function):
    call = getattr(torch.ops.openreg, function)
    for x in (numbers(), numbers().requires_grad_()):
        with torch.inference_mode():
            for given in (x, x + 1):
                y = call(given)
                assert (y.data_ptr(), y.shape) == (given.data_ptr(), given.shape)
                assert y.is_inference() == given.is_inference()


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize("tracks", [False, True])
def test_both_take_meta_tensors(function, tracks):
    x = torch.empty(2, 3, device="meta", requires_grad=tracks)
    y = getattr(torch.ops.openreg, function)(x)
    assert (y.shape, y.device, y.requires_grad) == (x.shape, x.device, tracks)
    if tracks:
        assert torch.autograd.grad(y.sum(), x)[0].shape == x.shape


# --- fallbacks ----------------------------------------------------------------


def test_vdot_runs_through_the_fallback_of_its_own():
    kernels = torch._C._dispatch_dump("aten::vdot").splitlines()
    (ours,) = (line for line in kernels if line.startswith("PrivateUse1:"))
    assert "OpenRegExtra.cpp" in ours
    x, y = numbers(torch.complex64), numbers(torch.complex64).flip(0)
    torch.openreg.reset_fallback_report()
    found = torch.vdot(x, y)
    assert torch.openreg.fallback_report() == {"aten::vdot": 1}
    assert torch.equal(found.cpu(), torch.vdot(x.cpu(), y.cpu()))


def test_an_operator_without_a_kernel_runs_through_the_fallback():
    x, y = numbers(), numbers().flip(0)
    torch.openreg.reset_fallback_report()
    found = torch.rsub(x, y, alpha=2)
    assert torch.openreg.fallback_report() == {"aten::rsub.Tensor": 1}
    assert torch.equal(found.cpu(), y.cpu() - 2 * x.cpu())
    x.requires_grad_()
    torch.rsub(x, y * 3).sum().backward()
    assert x.grad.tolist() == [-1] * 4


@pytest.fixture
def library():
    """A namespace of the test's own, gone with the test."""
    with torch.library._scoped_library("openreg_tests", "FRAGMENT") as made:
        yield made


def test_an_operator_with_a_kernel_for_the_cpu_runs_here_too(library):
    seen = []

    def twice(x, other=None, numbers=()):
        seen.append(x.device.type)
        return x * 2, x.view(-1)

    library.define(
        "twice(Tensor(a) x, Tensor? other=None, int[] numbers=[]) -> (Tensor, Tensor(a))"
    )
    library.impl("twice", twice, "CPU")
    x = numbers()
    doubled, view = torch.ops.openreg_tests.twice(x)
    assert seen == ["cpu"]  # as the kernel sees it
    assert (doubled.device, view.device) == (x.device, x.device)
    assert doubled.tolist() == [-7, -2, 0, 4.5]
    x.zero_()
    assert view.tolist() == [0] * 4


def test_an_operator_that_changes_its_argument_changes_the_tensor(library):
    library.define("bump(Tensor(a!) x, Tensor[] others) -> Tensor(a!)")
    library.impl("bump", lambda x, others: x.add_(sum(o.sum() for o in others)), "CPU")
    x = numbers()
    assert torch.ops.openreg_tests.bump(x, [torch.ones(2, device="openreg")]) is x
    assert x.tolist() == [-1.5, 1, 2, 4.25]


def test_an_operator_without_a_kernel_says_what_is_missing(library):
    library.define("nothing(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError) as error:
        torch.ops.openreg_tests.nothing(numbers())
    assert "openreg_tests::nothing" in str(error.value)
    assert "torch.library.impl" in str(error.value)


def test_an_error_of_the_kernel_reaches_the_caller(library):
    def fails(x):
        raise ValueError("on purpose")

    library.define("fails(Tensor x) -> Tensor")
    library.impl("fails", fails, "CPU")
    with pytest.raises(ValueError, match="on purpose"):
        torch.ops.openreg_tests.fails(numbers())
    torch.openreg.synchronize()


def test_operators_are_added_from_python(library):
    library.define("halve(Tensor x) -> Tensor")
    library.impl("halve", lambda x: x * 0.5, "PrivateUse1")
    assert torch.ops.openreg_tests.halve(numbers()).tolist() == [-1.75, -0.5, 0, 1.125]


def test_custom_ops_are_registered_for_openreg_by_name():
    with torch.library._scoped_library("openreg_tests", "FRAGMENT"):

        @torch.library.custom_op(
            "openreg_tests::square", mutates_args=(), device_types="openreg"
        )
        def square(x: torch.Tensor) -> torch.Tensor:
            return x * x

        @square.register_fake
        def _(x):
            return torch.empty_like(x)

        def setup(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

        square.register_autograd(backward, setup_context=setup)
        assert square(numbers()).tolist() == [12.25, 1, 0, 5.0625]
        assert gradcheck(square, (doubles(3, 2),))
        with pytest.raises(NotImplementedError):
            square(torch.ones(2))


# --- fallthrough --------------------------------------------------------------


def test_lazy_conjugates_and_negatives_can_be_copied():
    x = numbers(torch.complex64)
    expected = x.cpu()
    assert torch.equal(x.conj().cpu(), expected.conj())
    assert torch.equal(x._neg_view().cpu(), -expected)
    assert torch.equal(x.conj().imag.cpu(), -expected.imag)
    assert torch.equal(expected.conj().openreg().cpu(), expected.conj())
    assert torch.equal(torch.zeros_like(x).copy_(x.conj()).cpu(), expected.conj())
    assert torch.equal(x.conj().to("openreg:1").cpu(), expected.conj())
    assert torch.equal(
        x.conj().to(torch.complex128).cpu(), expected.conj().to(torch.complex128)
    )


# --- an override of one of PyTorch's own --------------------------------------


def test_a_module_keeps_its_parameters_when_it_moves():
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    before = list(module.parameters())
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for device in ("openreg:0", "openreg:1", "cpu", "openreg:1"):
        module.to(device)
        assert all(a is b for a, b in zip(module.parameters(), before, strict=True))
        assert {p.device for p in before} == {torch.device(device)}
    module(torch.ones(4, 2, device="openreg:1")).sum().backward()
    weight = module[0].weight.detach().clone()
    optimizer.step()
    assert module[0].weight.grad.device == torch.device("openreg:1")
    assert not torch.equal(module[0].bias, torch.zeros_like(module[0].bias))
    assert weight.device == torch.device("openreg:1")


def test_data_of_a_parameter_may_move_between_devices():
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.data = parameter.data.to("openreg")
    assert parameter.device.type == "openreg"
    assert (parameter * 2).tolist() == [2, 2, 2]
    parameter.data = parameter.data.cpu()
    assert parameter.tolist() == [1, 1, 1]


# --- nothing is left behind ---------------------------------------------------


def test_operators_leave_no_memory_behind():
    def use():
        x = numbers().requires_grad_()
        torch.ops.openreg.custom_abs(
            torch.ops.aten.openreg_scale(x, 2)
        ).sum().backward()
        (x.abs() - x).sum().item()

    use()
    gc.collect()
    before = torch.openreg.memory_allocated()
    use()
    gc.collect()
    assert torch.openreg.memory_allocated() == before
