"""What can be told of a result without computing it is true on openreg."""

import pytest
import torch
from comparison import DEVICE, call
from database import arguments, name_of, operators, samples
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

pytestmark = pytest.mark.filterwarnings("ignore")


def outlines(outcome, names):
    """What the results look like; None if they depend on numbers not there."""
    if isinstance(outcome.forward, Exception):
        return None
    return [
        (*[getattr(x, name) for name in names], strides(x))
        for x in outcome.forward
        if isinstance(x, torch.Tensor)
    ]


def strides(tensor):
    return tensor.stride() if tensor.layout == torch.strided else tensor.layout


def faked(op):
    """Runs an operator on fake tensors, which look for the kernels of their device."""

    def run(*args, **kwargs):
        with FakeTensorMode() as mode:
            args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
            return op.op(*args, **kwargs)

    return run


def foretell(op, dtype, tell, names):
    """Compares what `tell` says of the results with them. What it does not know of
    the CPU's either is PyTorch's matter."""
    verdict = {"forward": []}
    for index, sample in enumerate(samples(op, dtype, 3)):
        given = arguments(op, sample)

        def pair(device, given=given):
            outcomes = tell(given, device), call(op.op, given, device)
            return [outlines(outcome, names) for outcome in outcomes]

        told, found = pair(DEVICE)
        if told == found:
            continue
        told_of_cpu, found_on_cpu = pair("cpu")
        if told_of_cpu == found_on_cpu:
            verdict["forward"].append(f"sample {index}: {found} instead of {told}")
    return verdict


@pytest.mark.parametrize("op, dtype", operators())
def test_results_are_like_those_of_the_meta_device(op, dtype, settle):
    def tell(given, device):
        return call(op.op, given, "meta")

    verdict = foretell(op, dtype, tell, ("dtype", "shape"))
    settle("meta", name_of(op), dtype, verdict)


@pytest.mark.parametrize("op, dtype", operators())
def test_results_are_like_those_of_fake_tensors(op, dtype, settle):
    def tell(given, device):
        return call(faked(op), given, device)

    verdict = foretell(op, dtype, tell, ("dtype", "shape", "device"))
    settle("fake", name_of(op), dtype, verdict)
