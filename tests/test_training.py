"""The parts of training: attention, checkpoints. Optimizers are in
test_optimizers.py, whole nets in test_models.py."""

import contextlib
import functools

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)
from twins import numbers


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


# --- checkpoints --------------------------------------------------------------


def dropping(device):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for _ in range(4)]
    return nn.Sequential(*layers).to(device)


WAYS = {
    "whole": lambda model, x, **options: checkpoint(model, x, **options),
    "parts": lambda model, x, **options: checkpoint_sequential(model, 2, x, **options),
    "each": lambda model, x, **options: functools.reduce(
        lambda y, layer: checkpoint(layer, y, **options), model, x
    ),
}


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_checkpointing_draws_the_same_numbers_again(way, reentrant):
    model, results = dropping("openreg"), []
    for run in (nn.Module.__call__, functools.partial(way, use_reentrant=reentrant)):
        x = numbers(4, 8, device="openreg").requires_grad_()
        model.zero_grad()
        torch.manual_seed(2)
        run(model, x).sum().backward()
        after = torch.rand(3, device="openreg")  # is not drawn twice
        results.append([x.grad, *(p.grad for p in model.parameters()), after])
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_keeps_the_numbers_of_each_device(reentrant):
    def dropped(x, y):
        return F.dropout(x, 0.5).sum().to(y.device) + F.dropout(y, 0.5).sum()

    results = []
    for run in (dropped, functools.partial(checkpoint, dropped)):
        options = {} if run is dropped else {"use_reentrant": reentrant}
        x, y = (torch.ones(99, device=f"openreg:{i}") for i in range(2))
        given = x.requires_grad_(), y.requires_grad_()
        torch.manual_seed(2)
        run(*given, **options).backward()
        results.append([x.grad, y.grad])
    assert all(map(torch.equal, *results))


def test_a_checkpoint_keeps_what_it_is_asked_to_keep():
    calls = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            calls.append(function)
            return function(*args, **(kwargs or {}))

    mm = torch.ops.aten.mm.default
    for kept, times in (([mm], 2), ([], 3)):  # two gradients, the product again
        x = numbers(4, 4, device="openreg").requires_grad_()
        contexts = functools.partial(create_selective_checkpoint_contexts, kept)
        y = checkpoint(
            lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=contexts
        )
        calls.clear()
        with Count():
            torch.autograd.grad(y.sum(), x)
        assert calls.count(mm) == times


def test_what_is_saved_for_backward_can_wait_on_the_host():
    def pinned():
        return torch.openreg.host_memory_stats()["active_bytes.current"]

    torch.openreg.synchronize()
    torch.openreg.memory.empty_host_cache()  # hears what other tests are done with
    results, before = [], pinned()
    for pin, context in (
        (False, contextlib.nullcontext()),
        (True, save_on_cpu(pin_memory=True, device_type="openreg")),
    ):
        x = numbers(4, 8, device="openreg").requires_grad_()
        with context:
            y = x.sin().exp()
        assert (pinned() > before) == pin
        y.sum().backward()
        results.append(x.grad)
    assert torch.equal(*results)
