"""Trainings that ranks run twice: on their devices, and on the CPU with Gloo.

`compare(ranks, program)` runs `program(device)` in each rank for both, in groups that
serve both, and checks that the numbers are the same.
"""

import pytest

# What programs find: a small model, batches that differ by step and rank, a loop.
SETUP = """
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, width=16, depth=2, classes=4):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Tanh(),
                          nn.Linear(2 * width, width)) for _ in range(depth))
        self.head = nn.Linear(width, classes)
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)

def make(device, cls=Net):
    torch.manual_seed(0)
    return cls().to(device)

def batch(step, device, by=None):
    by = dist.get_rank() if by is None else by
    generator = torch.Generator().manual_seed(100 * (step % 4) + by)
    x = torch.randn(8, 16, generator=generator)
    return x.to(device), x.argmax(1).remainder(4).to(device)

def adam(model):
    return torch.optim.AdamW(model.parameters(), 0.01, foreach=False)

def train(model, device, optimizer=None, steps=20, by=None):
    optimizer = optimizer or adam(model)
    losses = []
    for step in range(steps):
        x, y = batch(step, device, by)
        loss = F.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
"""

BOTH = """
torch.manual_seed(rank)
found = []
for place in (device, torch.device("cpu")):
    found.append(program(place))
    dist.barrier()
return found
"""


def compare(ranks, program, size=2, within=0.0, **options):
    """Returns the numbers of each rank, which may differ from the CPU's by a part."""
    setup = SETUP + options.pop("setup", "")
    options.setdefault("OPENREG_DEVICE_COUNT", str(size))
    options.setdefault("patience", 20)
    results = ranks(program + BOTH, size, setup=setup, **options)
    for here, there in results:
        assert here == pytest.approx(there, rel=within, abs=within)
    return [here for here, _ in results]
