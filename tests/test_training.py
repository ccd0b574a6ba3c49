"""The parts of training: optimizers, attention, checkpoints. Whole nets are in
test_models.py."""

import pytest
import torch
from models import train
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import _default_to_fused_or_foreach
from torch.utils.checkpoint import checkpoint


@pytest.mark.parametrize("form", ["foreach", "fused"])
@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW]
)
def test_other_forms_of_an_optimizer_equal_the_cpus(optimizer, form):
    torch.manual_seed(0)
    model, batch = nn.Linear(5, 3), (torch.rand(8, 5), torch.randint(0, 3, (8,)))

    def make_optimizer(parameters):
        return optimizer(parameters, lr=0.1, **{form: True})

    expected = train(model, batch, make_optimizer, "cpu", steps=10)
    found = train(model, batch, make_optimizer, "openreg", steps=10)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_an_accelerator_has_foreach_optimizers_by_default():
    parameter = nn.Parameter(torch.ones(3, device="openreg"))
    fused, foreach = _default_to_fused_or_foreach(
        [parameter], differentiable=False, use_fused=False
    )
    assert (fused, foreach) == (False, True)


def test_attention_takes_the_cpus_way():
    torch.manual_seed(0)
    shapes = {"query": (2, 4, 6, 8), "key": (2, 4, 5, 8), "value": (2, 4, 5, 8)}
    given = [torch.rand(shape) for shape in shapes.values()]
    for options in (
        {},
        {"scale": 0.3},
        {"attn_mask": torch.rand(6, 5)},
        {"attn_mask": torch.rand(6, 5) > 0.3},
    ):
        results = []
        for device in ("cpu", "openreg"):
            inputs = [x.detach().to(device).requires_grad_() for x in given]
            moved = {
                name: value.to(device) if isinstance(value, torch.Tensor) else value
                for name, value in options.items()
            }
            output = F.scaled_dot_product_attention(*inputs, **moved)
            output.square().sum().backward()
            results.append([output.detach().cpu(), *(x.grad.cpu() for x in inputs)])
        for theirs, ours in zip(*results, strict=True):
            assert torch.equal(ours, theirs)


def test_checkpointing_draws_the_same_numbers_again():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).openreg()
    x = torch.rand(4, 8, device="openreg", requires_grad=True)
    results = []
    for run in (layer, lambda y: checkpoint(layer, y, use_reentrant=False)):
        torch.manual_seed(2)
        (grad,) = torch.autograd.grad(run(x).sum(), x)
        results.append(grad.cpu())
    assert torch.equal(*results)
