"""Models as timm has them, in plain nn: a ConvNeXt, a ViT, and their training."""

import copy
import math

import pytest
import torch
from device_name import NAME
from torch import nn
from torch.nn import functional as F

CLASSES = 6


class DropPath(nn.Module):
    """Leaves out the branch of whole samples."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        shape = (len(x),) + (1,) * (x.dim() - 1)
        return x * x.new_empty(shape).bernoulli_(1 - self.p).div_(1 - self.p)


class Layer(nn.Module):
    """An attention block with a scale per channel."""

    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scales = nn.Parameter(torch.full((2, width), 0.1))
        self.drop = DropPath(drop)

    def attend(self, x):
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(*parts.unbind(0))
        return self.proj(x.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.drop(self.scales[0] * self.attend(self.norms[0](x)))
        return x + self.drop(self.scales[1] * self.mlp(self.norms[1](x)))


class ViT(nn.Module):
    def __init__(self, width=24, depth=2):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.empty(1, 17, width))
        nn.init.trunc_normal_(self.places, std=0.02)
        drops = torch.linspace(0, 0.2, depth).tolist()
        self.layers = nn.Sequential(*(Layer(width, 4, drop) for drop in drops))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).mT
        places = self.places
        side = math.isqrt(x.shape[1])
        if side != 4:  # another size of picture: stretch what was learnt
            grid = places[:, 1:].mT.unflatten(-1, (4, 4))
            grid = F.interpolate(grid, (side, side), mode="bicubic", antialias=True)
            places = torch.cat([places[:, :1], grid.flatten(2).mT], dim=1)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + places
        return self.head(self.norm(self.layers(x))[:, 0])


class ConvNeXt(nn.Module):
    """Depthwise convolutions, channels last, squeeze and excite."""

    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, stride=2)
        self.deep = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 3 * width), nn.Hardswish(), nn.Linear(3 * width, width)
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, 4, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, width, 1),
            nn.Hardsigmoid(),
        )
        self.batch = nn.BatchNorm2d(width)
        self.drop = DropPath(0.2)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.stem(x.contiguous(memory_format=torch.channels_last))
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.mlp(y).permute(0, 3, 1, 2)
        x = x + self.drop(y * self.squeeze(y))
        return self.head(self.batch(x).mean((2, 3)))


MODELS = {"ViT": ViT, "ConvNeXt": ConvNeXt}


def mix(x, y):
    """MixUp and CutMix, random erasing, label smoothing."""
    share = torch.rand((), device=x.device) * 0.5 + 0.5
    target = F.one_hot(y, CLASSES).float() * 0.9 + 0.1 / CLASSES
    order = torch.randperm(len(x), device=x.device)
    x = share * x + (1 - share) * x[order]
    x[:, :, 2:6, 2:6] = x[order, :, 2:6, 2:6]
    x[::2, :, 8:10] = torch.randn_like(x[::2, :, 8:10])
    return x, share * target + (1 - share) * target[order]


def groups(model):
    """No decay for norms and biases, as timm does."""
    parts = [[], []]
    for parameter in model.parameters():
        parts[parameter.ndim <= 1].append(parameter)
    return [{"params": parts[0]}, {"params": parts[1], "weight_decay": 0.0}]


def train(model, device, steps=4):
    """Losses of some steps, and the mean of the weights over time."""
    model = model.to(device)
    mean = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(groups(model), 0.01, foreach=False)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    x, y = torch.randn(8, 3, 16, 16), torch.randint(0, CLASSES, (8,))
    torch.manual_seed(2)
    losses = []
    for _ in range(steps):
        pictures, target = mix(x.to(device), y.to(device))
        loss = torch.sum(-target * model(pictures).log_softmax(-1), -1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        cosine.step()
        for one, other in zip(mean.parameters(), model.parameters(), strict=True):
            one.detach().lerp_(other.detach(), 0.1)
        losses.append(loss.item())
    return losses, mean


@pytest.mark.parametrize("name", MODELS)
def test_training_gives_the_numbers_of_the_cpu(name):
    results = []
    for device in ("cpu", NAME):
        torch.manual_seed(0)
        results.append(train(MODELS[name](), device))
    (expected, there), (losses, here) = results
    assert losses == expected
    assert losses[-1] < losses[0]
    for one, other in zip(there.parameters(), here.parameters(), strict=True):
        assert torch.equal(other.cpu(), one)


def test_a_vit_takes_pictures_of_another_size():
    model, x = ViT().eval(), torch.randn(2, 3, 24, 24)
    with torch.no_grad():
        expected = model(x)
        assert torch.equal(model.to(NAME)(x.to(NAME)).cpu(), expected)


@pytest.mark.parametrize("name", MODELS)
def test_features_are_taken_by_hooks(name):
    model, x = MODELS[name]().eval(), torch.randn(2, 3, 16, 16)
    found = {}
    for device in ("cpu", NAME):
        features = found[device] = []

        def keep(part, inputs, output, features=features):
            features.append(output.clone().cpu())  # the next part may overwrite it

        parts = model.to(device).modules()
        handles = [part.register_forward_hook(keep) for part in parts]
        with torch.inference_mode():
            model(x.to(device))
        for handle in handles:
            handle.remove()
    assert len(found["cpu"]) > 8
    for one, other in zip(found["cpu"], found[NAME], strict=True):
        assert torch.equal(one, other)
