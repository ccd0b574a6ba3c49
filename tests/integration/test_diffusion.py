"""A diffusion model as diffusers has them, in plain nn: noise, U-Net, EMA, sampling."""

import math

import pytest
import torch
from device_name import NAME
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS, CLASSES = 20, 3


class Schedule(nn.Module):
    """How much of the picture is left after each step, by a cosine."""

    def __init__(self):
        super().__init__()
        time = torch.linspace(0, 1, STEPS + 1, dtype=torch.float64)
        left = torch.cos((time + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = (1 - left[1:] / left[:-1]).clamp(max=0.999)
        self.register_buffer("betas", betas.float())
        self.register_buffer("left", (1 - betas).cumprod(0).float())

    def add(self, x, noise, time):
        left = self.left[time][:, None, None, None]
        return left.sqrt() * x + (1 - left).sqrt() * noise

    def remove(self, x, noise, time):
        """One step back, with fresh noise in all but the last."""
        beta, left = self.betas[time], self.left[time]
        mean = (x - beta / (1 - left).sqrt() * noise) / (1 - beta).sqrt()
        return mean if time == 0 else mean + beta.sqrt() * torch.randn_like(x)


def waves(time, width):
    """A step as sines and cosines."""
    speeds = torch.exp(
        -math.log(10000) * torch.arange(width // 2, device=time.device) / (width // 2)
    )
    angles = time[:, None].float() * speeds
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Block(nn.Module):
    """A convolution that is shifted and scaled by the time."""

    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.norm = nn.GroupNorm(4, inputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(width, 2 * outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, time):
        y = self.first(F.silu(self.norm(x)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        y = F.group_norm(y, 4) * (1 + scale) + shift
        return self.skip(x) + self.second(self.drop(F.silu(y)))


class UNet(nn.Module):
    """Pictures at two sizes, attention at the smaller one, and a class to aim at."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.classes = nn.Embedding(CLASSES + 1, width)  # the last one: any
        self.inlet = nn.Conv2d(1, width, 3, padding=1)
        self.down = Block(width, width, width)
        self.small = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = Block(2 * width, 2 * width, width)
        self.attention = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.large = nn.Conv2d(2 * width, width, 3, padding=1)
        self.up = Block(2 * width, width, width)
        self.outlet = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, time, kind):
        time = self.time(waves(time, self.width)) + self.classes(kind)
        skip = self.down(self.inlet(x), time)
        x = self.middle(self.small(skip), time)
        row = x.flatten(2).mT
        x = x + self.attention(row, row, row)[0].mT.reshape(x.shape)
        x = self.large(F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.outlet(self.up(torch.cat([x, skip], dim=1), time))


def train(device, steps=5):
    """The losses, and the models: the last one and the mean over time."""
    torch.manual_seed(0)
    schedule, model = Schedule().to(device), UNet().to(device)
    mean = AveragedModel(
        model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, foreach=False)
    pictures, kinds = torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])
    x, kind = pictures.to(device), kinds.to(device)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        noise = torch.randn_like(x)
        time = torch.randint(0, STEPS, (len(x),), device=device)
        # Sometimes without the class, so that both can be asked for.
        any_kind = torch.rand(len(x), device=device) < 0.2
        found = model(
            schedule.add(x, noise, time), time, kind.masked_fill(any_kind, CLASSES)
        )
        left = schedule.left[time]
        weight = torch.clamp(left / (1 - left), max=5) / (left / (1 - left))
        loss = (
            F.mse_loss(found, noise, reduction="none").mean((1, 2, 3)) * weight
        ).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean.update_parameters(model)
        losses.append(loss.item())
    return losses, model, mean


@torch.no_grad()
def sample(model, device, guidance=3.0):
    """Pictures out of noise, with the class pulled at."""
    model, schedule = model.eval(), Schedule().to(device)
    x = torch.randn(
        2, 1, 8, 8, generator=torch.Generator(device).manual_seed(5), device=device
    )
    kind = torch.tensor([1, 2, CLASSES, CLASSES], device=device)
    torch.manual_seed(2)
    for step in reversed(range(STEPS)):
        time = torch.full((4,), step, device=device)
        aimed, free = model(torch.cat([x, x]), time, kind).chunk(2)
        noise = free + guidance * (aimed - free)
        x = schedule.remove(x, noise, step).clamp(-4, 4)
    return x


@pytest.fixture(scope="module")
def trained():
    return {device: train(device) for device in ("cpu", NAME)}


def test_training_gives_the_numbers_of_the_cpu(trained):
    (expected, *there), (losses, *here) = trained["cpu"], trained[NAME]
    assert losses == expected
    assert len(set(losses)) == 5
    for one, other in zip(there, here, strict=True):
        for name, value in one.state_dict().items():
            assert torch.equal(other.state_dict()[name].cpu(), value), name


def test_sampling_gives_the_pictures_of_the_cpu(trained):
    expected = sample(trained["cpu"][2], "cpu")
    found = sample(trained[NAME][2], NAME)
    assert torch.equal(found.cpu(), expected)
    assert expected.std() > 0.1


def test_the_noise_schedule_is_that_of_the_cpu():
    for name, value in Schedule().to(NAME).named_buffers():
        assert torch.equal(value.cpu(), getattr(Schedule(), name))
