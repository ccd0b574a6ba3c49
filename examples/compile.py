"""A small GPT, trained three times: as it is, compiled, and compiled with graphs.

    python examples/compile.py [--steps N]

torch.compile writes C++ for the model, and the device runs it. With
`mode="reduce-overhead"` what it wrote is recorded in a graph besides, and replayed.
"""

import argparse
import sys
import time

import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn
from torch.nn import functional as F
from torch.profiler import DeviceType, ProfilerActivity, profile

console = Console(highlight=False, markup=False, soft_wrap=True)
WAYS = {
    "eager": None,
    "compiled": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
}
WORDS, LENGTH, WIDTH, HEADS = 64, 32, 32, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, HEADS, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Learns to continue sequences that count upwards in steps of their own."""

    def __init__(self):
        super().__init__()
        self.words, self.places = (
            nn.Embedding(WORDS, WIDTH),
            nn.Embedding(LENGTH, WIDTH),
        )
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        here, there = tokens[:, :-1], tokens[:, 1:]
        places = torch.arange(here.shape[1], device=tokens.device)
        x = self.blocks(self.words(here) + self.places(places))
        return F.cross_entropy(self.out(self.norm(x)).flatten(0, 1), there.flatten())


def batches(count):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        start, step = torch.randint(1, 8, (2, 16, 1), generator=generator)
        yield ((start + step * torch.arange(LENGTH)) % WORDS).to("openreg")


def train(options, steps, advance):
    """The losses; seconds of the first step and milliseconds of a later one; and what
    the device ran in the last one, by name."""
    torch.manual_seed(0)
    model = Gpt().to("openreg")
    forward = model if options is None else torch.compile(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    losses, moments = [], [time.perf_counter()]

    def step(tokens):
        loss = forward(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        moments.append(time.perf_counter())
        advance()

    *first, last = batches(steps)
    for tokens in first:
        step(tokens)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        step(last)
    took = [b - a for a, b in zip(moments, moments[1:])]
    rows = [e for e in p.events() if e.device_type == DeviceType.PrivateUse1]
    return losses, took[0], 1000 * min(took[2:-1]), rows


def show(results):
    """Where the time went: into compiling, into Python, into which kernels."""
    for way, (_, first, later, rows) in results.items():
        times = {}
        for row in rows:
            times[row.name] = times.get(row.name, 0) + row.self_device_time_total
        total = sum(times.values())
        console.print(
            f"{way:<15} first step {first:5.1f} s, then {later:.1f} ms each; the last: "
            f"{len(rows)} kernels, {total / 1000:.1f} ms"
        )
        for name in sorted(times, key=times.get, reverse=True)[:3]:
            console.print(f"  {times[name] / total:4.0%} {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40, help="at least 5")
    steps = max(5, parser.parse_args().steps)
    results = {}
    with Progress(console=console) as progress:
        for way, options in WAYS.items():
            task = progress.add_task(f"{way:<15}", total=steps)
            results[way] = train(options, steps, lambda t=task: progress.advance(t))
    show(results)
    losses = [torch.tensor(result[0]) for result in results.values()]
    console.print(f"loss {losses[0][0]:.4f} -> {losses[0][-1]:.4f}")
    same = all(torch.allclose(losses[0], other, rtol=1e-3) for other in losses[1:])
    console.print(f"the same losses three times: {same}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
