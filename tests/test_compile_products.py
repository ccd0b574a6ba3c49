"""Products of matrices in compiled code."""

import pytest
import torch
from torch._inductor.utils import fresh_cache, run_and_get_code

import torch_openreg

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()


PRODUCTS = {
    "mm": lambda a, b, c: torch.mm(a[0], b[0]),
    "bmm": lambda a, b, c: torch.bmm(a, b),
    "addmm": lambda a, b, c: torch.addmm(c[0], a[0], b[0], beta=0.5, alpha=2),
    "baddbmm": lambda a, b, c: torch.baddbmm(c, a, b, beta=3, alpha=-1.5),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_matrices_is_called_without_the_parser(name):
    torch.manual_seed(0)
    matrices = [torch.randn(2, 16, 16) for _ in "abc"]
    ours, (code,) = run_and_get_code(
        torch.compile(PRODUCTS[name]), *(m.to("openreg") for m in matrices)
    )
    assert f"openreg_products.{name}(" in code
    assert torch.equal(ours.cpu(), PRODUCTS[name](*matrices))


def test_a_product_refuses_tensors_that_are_not_matrices():
    x = torch.ones(2, 2, device="openreg")
    with pytest.raises(TypeError, match="expected a tensor, but got int"):
        torch_openreg._C._mm(x, 1, x)
    with pytest.raises(TypeError, match="expected 6 arguments, but got 3"):
        torch_openreg._C._addmm(x, x, x)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch_openreg._C._mm(x, torch.ones(3, 3, device="openreg"), x)


def matrix(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape).sin()


# Inductor knows each of them as a sum, or as a product of a column and a row.
SMALL = {
    "mm": (torch.mm, matrix(1, 37), matrix(37, 1)),
    "mm outer": (torch.mm, matrix(4, 1), matrix(1, 5)),
    "bmm": (torch.bmm, matrix(3, 1, 37), matrix(3, 37, 1)),
    "addmm": (torch.addmm, matrix(1, 1), matrix(1, 37), matrix(37, 1)),
    "addmm row": (torch.addmm, matrix(1, 9), matrix(1, 16), matrix(16, 9)),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "addmm" else pytest.mark.slow)
        for name in SMALL
    ],
)
def test_a_small_product_is_a_sum_with_the_bits_of_the_cpus(name):
    multiply, *matrices = SMALL[name]
    ours, (code,) = run_and_get_code(
        torch.compile(multiply), *(m.to("openreg") for m in matrices)
    )
    assert "openreg_products." not in code and "extern_kernels." not in code
    torch._dynamo.reset()
    assert torch.equal(ours.cpu(), torch.compile(multiply)(*matrices))


def test_a_product_with_an_inner_size_of_one_is_multiplied_as_on_the_cpu():
    """Other devices are given a sum for each of them."""
    column, row = (m.to("openreg") for m in (matrix(40, 1), matrix(1, 40)))
    with fresh_cache():
        _, (code,) = run_and_get_code(torch.compile(torch.mm), column, row)
    assert "openreg_products.mm(" in code


def test_decompositions_that_no_longer_ask_for_the_cpu_are_reported():
    from torch_openreg.inductor import _products

    with pytest.raises(ImportError, match=r"the CPU in .*matrix\(\) is no more"):
        _products._ask_for_device(matrix)
