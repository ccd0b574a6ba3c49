"""Training gives the CPU's numbers step by step: to the bit, RNNs to rounding."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import _default_to_fused_or_foreach
from torch.utils.checkpoint import checkpoint

STEPS = 10


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, groups=2, stride=2),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
            nn.ConvTranspose2d(16, 8, 2),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 10))

    def forward(self, x):
        return self.classify(self.features(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(
            tokens.shape[1], device=tokens.device
        )
        x = self.layers(self.embed(tokens), mask=mask, is_causal=True)
        return self.head(x).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, dropout=0.1, bidirectional=True)
        self.gru = nn.GRU(48, 16)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        x, _ = self.lstm(self.embed(tokens))
        x, _ = self.gru(x)
        return self.head(x).flatten(0, 1)


def images():
    return torch.rand(4, 3, 12, 12), torch.randint(0, 10, (4,))


def tokens():
    return torch.randint(0, 50, (4, 8)), torch.randint(0, 50, (32,))


MODELS = {
    "conv net": (ConvNet, images, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "transformer": (Transformer, tokens, torch.optim.AdamW, {"lr": 1e-2}),
    "lstm": (Recurrent, tokens, torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
}


def train(model, batch, make_optimizer, device):
    """The loss of each step, and what is left in the model and its gradients."""
    model = copy.deepcopy(model).to(device)
    optimizer = make_optimizer(model.parameters())
    x, y = (part.to(device) for part in batch)
    torch.manual_seed(1)  # of all devices: dropout draws the same
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    grads = {name: p.grad.cpu() for name, p in model.named_parameters()}
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    return losses, grads, state


EXACT = {"rtol": 0, "atol": 0}


@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_equal_the_cpus(name, device):
    make_model, make_batch, optimizer, options = MODELS[name]
    torch.manual_seed(0)
    model, batch = make_model(), make_batch()

    # The CPU's default is the loop over parameters, an accelerator's is foreach.
    def make_optimizer(parameters):
        return optimizer(parameters, foreach=False, **options)

    expected = train(model, batch, make_optimizer, "cpu")
    found = train(model, batch, make_optimizer, device)
    # On an accelerator a recurrent cell is one operator, which adds in another
    # order than the CPU's.
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if name == "lstm" else EXACT
    torch.testing.assert_close(found, expected, **tolerance)
    assert expected[0][-1] < expected[0][0]


@pytest.mark.parametrize("form", ["foreach", "fused"])
@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW]
)
def test_other_forms_of_an_optimizer_equal_the_cpus(optimizer, form):
    torch.manual_seed(0)
    model, batch = nn.Linear(5, 3), (torch.rand(8, 5), torch.randint(0, 3, (8,)))

    def make_optimizer(parameters):
        return optimizer(parameters, lr=0.1, **{form: True})

    expected = train(model, batch, make_optimizer, "cpu")
    assert train(model, batch, make_optimizer, "openreg")[0] == expected[0]


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
