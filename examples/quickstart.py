"""A first look at openreg: train on it, break the rules, see the memory.

    python examples/quickstart.py [--steps N]

Nothing is imported but torch: it finds the device by itself.
"""

import argparse
import functools
import sys

import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn
from torch.nn import functional as F

console = Console(highlight=False, markup=False, soft_wrap=True)


class ConvNet(nn.Sequential):
    """Tells which quarter of a 16 x 16 picture is the bright one."""

    def __init__(self):
        super().__init__(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
            *(nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(128, 4)),
        )

    @staticmethod
    def batch():
        pictures, quarter = torch.randn(64, 1, 16, 16), torch.randint(4, (64,))
        for picture, q in zip(pictures, quarter.tolist()):
            row, column = 8 * (q // 2), 8 * (q % 2)
            picture[0, row : row + 8, column : column + 8] += 1
        return pictures, quarter


class Transformer(nn.Module):
    """Learns to say a sequence of 16 tokens backwards."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(32, 64)
        self.places = nn.Parameter(0.1 * torch.randn(16, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.answer = nn.Linear(64, 32)

    def forward(self, x):
        return self.answer(self.encoder(self.tokens(x) + self.places)).mT

    @staticmethod
    def batch():
        sequence = torch.randint(32, (32, 16))
        return sequence, sequence.flip(1)


def train(network, device, steps, advance):
    """The loss of every step. The same seeds on every device."""
    torch.manual_seed(0)
    # Made and filled on the host, so the numbers do not depend on the device.
    batches = [network.batch() for _ in range(8)]
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    # Dropout draws on the device. It has a generator of its own, which gives the
    # numbers that the CPU's gives for the same seed.
    torch.manual_seed(1)
    losses = []
    for step in range(steps):
        inputs, targets = (t.to(device) for t in batches[step % len(batches)])
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        advance()
    return torch.stack(losses).cpu()


def compare_training(steps):
    """Trains both networks on both devices; whether the losses are equal."""
    equal = True
    for network in (ConvNet, Transformer):
        losses = {}
        with Progress(console=console) as progress:
            for device in ("cpu", "openreg"):
                name = f"{network.__name__:<11} on {device:<7}"
                task = progress.add_task(name, total=steps)
                advance = functools.partial(progress.advance, task)
                losses[device] = train(network, device, steps, advance)
        same = torch.equal(losses["cpu"], losses["openreg"])
        equal &= same
        for device, values in losses.items():
            console.print(f"  {device:<8} loss {values[0]:.9f} -> {values[-1]:.9f}")
        console.print(f"  every bit of {steps} losses is the same: {same}\n")
    return equal


def mix_up_devices():
    """As on a GPU, tensors of two devices do not meet by accident."""
    weight = torch.randn(4, 4, device="openreg")
    try:
        weight @ torch.randn(4, 4)
    except RuntimeError as error:
        console.print(f"A device mix-up is caught:\n  {error}\n")
        return True
    return False


def run_out_of_memory():
    """A request that does not fit fails; what was there stays usable."""
    kept = torch.arange(4, device="openreg")
    _, total = torch.openreg.mem_get_info()
    try:
        torch.empty(total + 1, dtype=torch.uint8, device="openreg")
    except torch.OutOfMemoryError as error:
        console.print(f"Running out of memory is survived:\n  {error}")
        console.print(f"  afterwards: {(kept + 1).tolist()}\n")
        return True
    return False


def show_memory():
    """The cache keeps what a tensor gave back, until it is emptied."""

    def line(when):
        in_use, held = torch.openreg.memory_allocated(), torch.openreg.memory_reserved()
        console.print(f"  {when:<20} {in_use >> 20:2} MiB in use, {held >> 20:2} held")

    console.print("Memory:")
    x = torch.zeros(16 << 20, dtype=torch.uint8, device="openreg")
    line("with a 16 MiB tensor")
    del x
    line("without it")
    torch.openreg.empty_cache()
    line("after empty_cache()")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="of each training")
    steps = parser.parse_args().steps
    name, count = torch.openreg.get_device_name(), torch.openreg.device_count()
    console.print(f"{count} devices named {name}, torch {torch.__version__}\n")
    good = [compare_training(steps), mix_up_devices(), run_out_of_memory()]
    show_memory()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
