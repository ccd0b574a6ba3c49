"""Level 6: modules, optimizers and whole trainings give what the CPU gives."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ..check import check
from ..expect import expect, expect_equal

PAGE = "autograd.md"
NOTHING = (
    "Nothing, if the operators it calls are right: run the level above to see which."
)


def expect_same_pass(device, module, *shapes, scale=20):
    """Fails unless forward and backward pass of a module are the CPU's."""
    there = copy.deepcopy(module).to(device.at())
    pairs = [device.pair(*shape, seed=i) for i, shape in enumerate(shapes)]
    module.zero_grad()  # a deep copy of a parameter has no gradient
    results = []
    for one, inputs in (
        (module, [p[0] for p in pairs]),
        (there, [p[1] for p in pairs]),
    ):
        out = one(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        out.square().mean().backward()
        results.append((out, one))
    (expected, _), (found, _) = results
    device.expect_close(found, expected, "the output", scale=scale)
    for (name, one), other in zip(
        there.named_parameters(), module.parameters(), strict=True
    ):
        device.expect_close(
            one.grad, other.grad, f"the gradient of {name}", scale=scale
        )


def make(function):
    """A module with weights that are always the same."""
    torch.manual_seed(0)
    return function()


@check(call="nn.Linear, nn.LayerNorm, nn.GELU", write=NOTHING, page=PAGE)
def perceptron(device):
    """A perceptron with normalisation gives the CPU's numbers."""
    module = make(
        lambda: nn.Sequential(
            nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2), nn.Tanh()
        )
    )
    expect_same_pass(device, module, (5, 6))


@check(call="nn.Embedding, nn.CrossEntropyLoss", write=NOTHING, page=PAGE)
def embedding(device):
    """Embeddings and the loss of a classifier give the CPU's numbers."""
    words = torch.tensor([[1, 2, 2], [0, 4, 1]])
    module = make(lambda: nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3)))
    there = copy.deepcopy(module).to(device.at())
    targets = torch.tensor([0, 2, 1, 1, 0, 2])
    for one, at in ((module, "cpu"), (there, device.at())):
        out = one(words.to(at)).view(6, 3)
        nn.functional.cross_entropy(out, targets.to(at)).backward()
    device.expect_close(there[0].weight.grad, module[0].weight.grad, scale=10)


def train(at, optimizer, steps=6, **options):
    """The losses of a small training, and the weights after it."""
    model = make(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    model.to(at)
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(16, 4, generator=generator).to(at)
    target = data.sum(1, keepdim=True).sin()
    optimizer = optimizer(model.parameters(), lr=0.05, **options)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


@check(call="torch.optim.SGD, Adam, AdamW, RMSprop", write=NOTHING, page=PAGE)
def optimizers(device):
    """Optimizers, in each implementation, end where the CPU's do."""
    kinds = [
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {"foreach": False}),
        (torch.optim.Adam, {"foreach": True}),
        (torch.optim.AdamW, {"amsgrad": True}),
        (torch.optim.RMSprop, {}),
    ]
    for kind, options in kinds:
        _, expected = train("cpu", kind, **options)
        _, found = train(device.at(), kind, **options)
        for one, other in zip(found.parameters(), expected.parameters(), strict=True):
            device.expect_close(one, other, f"{kind.__name__} {options}", scale=100)


@check(call="a training loop", write=NOTHING, page=PAGE)
def learns(device):
    """A model learns: the loss falls as on the CPU."""
    found, _ = train(device.at(), torch.optim.Adam, steps=40)
    expected, _ = train("cpu", torch.optim.Adam, steps=40)
    expect(found[-1] < found[0] / 2, f"the loss goes from {found[0]} to {found[-1]}")
    rtol = device.settings.tolerance_of("float32")[0]
    difference = abs(found[-1] - expected[-1]) / expected[0]
    expect(
        difference < 100 * rtol + 1e-3,
        f"the loss ends at {found[-1]}, on the CPU at {expected[-1]}",
    )


@check(call="nn.utils.clip_grad_norm_()", write=NOTHING, page=PAGE)
def clips_gradients(device):
    """The norm of gradients is computed and limited on the device."""
    _, x = device.pair(10)
    x.requires_grad_()
    (x * 100).sum().backward()
    norm = nn.utils.clip_grad_norm_([x], 1.0)
    device.expect_close(norm, torch.tensor(100 * 10**0.5), "the norm", scale=10)
    expect(abs(x.grad.norm().item() - 1) < 1e-2, "the gradients are not clipped")


@check(
    call="module.to(NAME), module.NAME()",
    write="`rename_privateuse1_backend` and"
    " `generate_methods_for_privateuse1_backend`.",
    page=PAGE,
)
def modules_move(device):
    """Modules move to the device and back, buffers too, and keep their weights."""
    module = make(lambda: nn.BatchNorm1d(3))
    getattr(module, device.name)()
    for name, tensor in module.state_dict().items():
        device.expect_on_device(tensor, name)
    module.to("cpu")
    expect_equal(module.running_mean.device.type, "cpu", "the device of a buffer")


@check(call="module.load_state_dict(cpu_state)", write=NOTHING, page=PAGE)
def states_load(device):
    """A state of the CPU can be loaded into a module on the device."""
    module = make(lambda: nn.Linear(3, 2))
    there = nn.Linear(3, 2).to(device.at())
    there.load_state_dict(module.state_dict())
    device.expect_close(there.weight, module.weight, "the weight")
    device.expect_on_device(there.weight, "the weight")


@check(
    call="DataLoader(..., num_workers=2)",
    write="Workers are forked and must not touch the device: nothing may start its"
    " runtime in a child.",
    page="errors.md",
    seconds=120,
)
def data_comes_from_workers(device):
    """A DataLoader with worker processes feeds the device."""
    data = TensorDataset(torch.arange(8.0))
    torch.ones(1, device=device.at())
    loader = DataLoader(data, batch_size=4, num_workers=2)
    found = torch.cat([batch.to(device.at()) for (batch,) in loader])
    device.expect_close(found, torch.arange(8.0), "the batches")
