"""PyTorch's own database of optimizers: every set of options it has, in every form,
for parameters of several shapes and dtypes."""

import copy
import inspect

import pytest
import torch
from comparison import DEVICE, compare, put, seed
from torch import nn
from torch.testing._internal.common_optimizers import optim_db

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = (3, 4), (5,), (), (0,), (2, 3, 2)
OTHERS = {
    torch.optim.Adafactor: ((3, 4), (5,), ()),  # divides by the number of elements
    torch.optim.Muon: ((3, 4), (5, 2)),  # takes matrices only
}
DTYPES = torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64


def forms():
    for info in optim_db:
        if info.optim_cls is torch.optim.SparseAdam:  # takes gradients of its own
            continue
        accepted = inspect.signature(info.optim_cls).parameters
        for form in ("plain", "foreach", "fused"):
            if form == "plain" or form in accepted:
                yield pytest.param(info, form, id=f"{info.optim_cls.__name__}-{form}")


def steps(info, options, shapes, dtype, device):
    """Some steps with made-up gradients; parameters and state, or the exception."""
    seed(0)
    drawn = [torch.rand(2, *shape, dtype=dtype) for shape in shapes]
    parameters = [nn.Parameter(put(both[0].clone(), device)) for both in drawn]
    slopes = [put(both[1].clone(), device) for both in drawn]
    options = put(copy.deepcopy(options), device)
    try:
        optimizer = info.optim_cls(parameters, **options)
        for _ in range(3):
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter.grad = (slope - 0.3) * parameter.detach()
            optimizer.step(lambda: sum(p.abs().square().sum() for p in parameters))
    except Exception as error:
        return error
    state = [
        put(value.detach(), device)  # counters may be on the host
        for kept in optimizer.state.values()
        for value in kept.values()
        if isinstance(value, torch.Tensor)
    ]
    return [*(p.detach() for p in parameters), *state]


@pytest.mark.parametrize("info, form", forms())
def test_an_optimizer_takes_the_same_steps_as_on_the_cpu(info, form):
    shapes = OTHERS.get(info.optim_cls, SHAPES)
    accepted = inspect.signature(info.optim_cls).parameters
    kinds = {name: form == name for name in ("foreach", "fused") if name in accepted}
    for given in info.optim_inputs_func("cpu"):
        for dtype in DTYPES:
            options = {**given.kwargs, **kinds}
            expected = steps(info, options, shapes, dtype, "cpu")
            found = steps(info, options, shapes, dtype, DEVICE)
            compare(found, expected)
