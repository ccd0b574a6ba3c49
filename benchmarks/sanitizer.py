"""What the sanitizer costs a training step of an MLP with 512 units.

    python benchmarks/sanitizer.py [--calls 2000] [--rounds 9] [--json FILE]

A step stands for 40 calls. It is timed without it, with the search for races, and with all checks; they take
turns. The last column is the time by that without.
"""

import contextlib
import json
import sys

import torch
from measure import once, parse
from torch import nn

from torch_openreg import sanitizer

CHECKS = {
    "off": contextlib.nullcontext,
    "race": lambda: sanitizer.check("race"),
    "all": lambda: sanitizer.check("race,memory,init"),
}


def training():
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers).to("openreg")
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.randn(64, 512).to("openreg")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def main():
    options = parse(__doc__)
    step = training()
    step()
    calls = max(options.calls // 40, 1)
    best = dict.fromkeys(CHECKS, float("inf"))
    for _ in range(options.rounds):
        for name, checks in CHECKS.items():
            with checks():
                step()
                best[name] = min(best[name], once(step, calls) * 1e6)
    print(f"{'MLP 512':10} {'us':>8} {'ratio':>6}")
    for name, time in best.items():
        print(f"{name:10} {time:8.0f} {time / best['off']:6.2f}")
    if options.json:
        options.json.write_text(json.dumps(best, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
