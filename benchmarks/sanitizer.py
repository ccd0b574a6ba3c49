"""What the sanitizer costs a training step of an MLP with 512 units.

    python benchmarks/sanitizer.py [--calls 2000] [--rounds 9] [--json FILE]

A step stands for 40 calls. It is timed without it, with the search for races, and with all checks; they take
turns. Beside the time stands the most device memory in use, with blocks that were kept back; and both by those without.
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
    best = {name: {"us": float("inf"), "MiB": 0.0} for name in CHECKS}
    for _ in range(options.rounds):
        for name, checks in CHECKS.items():
            torch.openreg.reset_peak_memory_stats()
            with checks():
                step()
                time = once(step, calls) * 1e6
            peak = torch.openreg.memory_stats()["active_bytes.all.peak"] / (1 << 20)
            best[name] = {"us": min(best[name]["us"], time), "MiB": peak}
    print(f"{'MLP 512':10} {'us':>8} {'ratio':>6} {'MiB':>8} {'ratio':>6}")
    for name, figures in best.items():
        columns = [
            f"{figures[unit]:8.1f} {figures[unit] / best['off'][unit]:6.2f}"
            for unit in figures
        ]
        print(f"{name:10}", *columns)
    if options.json:
        options.json.write_text(json.dumps(best, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
