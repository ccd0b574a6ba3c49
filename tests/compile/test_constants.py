"""Tensors that the compiled program holds itself: constants, and weights of a frozen
net. A kernel reads them where they are."""

import pytest
import torch
from compiled import DEVICE, check_compiled, compile
from groups import numbers
from torch import nn
from torch._inductor import config
from torch._inductor.utils import fresh_cache

pytestmark = pytest.mark.filterwarnings("ignore")

LONG = [number / 7 for number in range(16)]  # more than is written into a kernel

WAYS = {
    "plain": {},
    "cpp_wrapper": {"options": {"cpp_wrapper": True}},
    "reduce-overhead": {"mode": "reduce-overhead"},
}


def constants(x):
    here = torch.tensor(LONG, device=x.device)
    there = torch.tensor(LONG)
    return x + here, x @ here, x * there.to(x.device), there * 2


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_constant_is_read_on_its_device(way):
    check_compiled(constants, (numbers(6, 16),), **WAYS[way])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_an_operator_without_a_kernel_of_inductors_reads_a_constant(way):
    """Its sizes are numbers, equal ones too."""

    def solve(x):
        square = torch.tensor([[4.0, 1.0], [1.0, 3.0]], device=x.device)
        places = torch.tensor(LONG, device=x.device)
        return torch.linalg.solve(square, x), torch.searchsorted(places, x)

    check_compiled(solve, (numbers(2, 16),), **WAYS[way])


@pytest.mark.slow
def test_a_branch_reads_a_constant_that_was_made_outside():
    """One that is made in a branch is lost if the branch is taken, on the CPU too."""

    def choose(x):
        outside = torch.tensor(LONG, device=x.device)

        def subtract(x):
            return x - torch.tensor(LONG, device=x.device)

        return torch.cond(x.sum() > 0, lambda x: x + outside, subtract, (x,))

    check_compiled(choose, (numbers(6, 16).abs(),))


# In a process of its own: compiled code keeps its constants, and so memory of the device.
def test_a_constant_of_a_second_device_is_read_there(run_python):
    code = f"""
import torch
def shifted(x):
    return x + torch.tensor({LONG}, device=x.device)
x = torch.ones(16, device="openreg:1")
print(torch.equal(torch.compile(shifted)(x), shifted(x)))
"""
    assert run_python(code) == "True"


@pytest.mark.slow
@pytest.mark.parametrize("cpp_wrapper", [False, True])
def test_a_kernel_reads_weights_of_a_frozen_net(cpp_wrapper):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)).eval()
    x = numbers(6, 16)
    expected = net(x)
    settings = {"freezing": True, "cpp_wrapper": cpp_wrapper}
    with torch.no_grad(), config.patch(settings), fresh_cache():
        ours = compile(net.to(DEVICE))(x.to(DEVICE))
    torch.testing.assert_close(ours.cpu(), expected)
