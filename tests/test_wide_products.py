"""Products of matrices with a dtype for the result, which the CPU has not."""

import pytest
import torch

HALVES = [torch.float16, torch.bfloat16]
SHAPES = {
    torch.mm: [(3, 4), (4, 5)],
    torch.bmm: [(2, 3, 4), (2, 4, 5)],
    torch.addmm: [(5,), (3, 4), (4, 5)],
    torch.baddbmm: [(2, 3, 5), (2, 3, 4), (2, 4, 5)],
}
OPERATORS = pytest.mark.parametrize("product", SHAPES, ids=lambda f: f.__name__)


def matrices(product, dtype):
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype) for shape in SHAPES[product]]


def on_device(tensors):
    return [tensor.to("openreg") for tensor in tensors]


@OPERATORS
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_are_multiplied_as_floats(product, dtype):
    given = matrices(product, dtype)
    expected = product(*(matrix.float() for matrix in given))
    found = product(*on_device(given), out_dtype=torch.float32)
    assert torch.equal(found.cpu(), expected)
    assert found.stride() == expected.stride()
    out = torch.empty(0, device="openreg")
    assert product(*on_device(given), out_dtype=torch.float32, out=out) is out
    assert torch.equal(out.cpu(), expected)


@OPERATORS
def test_the_dtype_may_be_the_same(product):
    given = matrices(product, torch.float32)
    found = product(*on_device(given), out_dtype=torch.float32)
    assert torch.equal(found.cpu(), product(*given))


@pytest.mark.parametrize("product", [torch.addmm, torch.baddbmm])
def test_both_parts_of_a_sum_are_scaled(product):
    given = matrices(product, torch.bfloat16)
    weights = {"beta": 0.5, "alpha": 2}
    found = product(*on_device(given), out_dtype=torch.float32, **weights)
    expected = product(*(matrix.float() for matrix in given), **weights)
    assert torch.equal(found.cpu(), expected)


@OPERATORS
@pytest.mark.parametrize(
    "dtype, wanted", [(torch.float32, torch.float64), (torch.float16, torch.bfloat16)]
)
def test_other_dtypes_are_refused(product, dtype, wanted):
    given = on_device(matrices(product, dtype))
    with pytest.raises(RuntimeError, match="out_dtype must be .*, but it is"):
        product(*given, out_dtype=wanted)


def test_matrices_of_two_devices_are_refused():
    a, b = matrices(torch.mm, torch.float16)
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(a.to("openreg:0"), b.to("openreg:1"), out_dtype=torch.float32)
