"""Replays of a graph against the same work on the CPU without one, in turns.

    python benchmarks/graphs.py [--rounds 7] [--scale 1.0] [--json FILE]

A ratio is the time of a replay by the CPU's: lower is better. `aim` is what it is to
be, and a row is "over" if it is more than 5 % above. All with one thread: with more,
threads of the device and of the CPU would be in each other's way.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from measure import Function, best_of
from torch import nn

TOLERANCE = 1.05
m = torch.openreg


class Case(NamedTuple):
    name: str
    make: Callable[[str], Function]  # of a device
    calls: int
    aim: float


def adds(device):
    x, y = torch.ones(8, device=device), torch.ones(8, device=device)

    def run():
        z = x
        for _ in range(100):
            z = z + y
        return z

    return run


def mlp(device):
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers).to(device), torch.randn(32, 64).to(device)


def forward(device):
    model, x = mlp(device)

    def run():
        with torch.no_grad():
            return model(x)

    return run


def training(device):
    model, x = mlp(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=True)

    def run():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return run


CASES = [
    Case("100 adds of 8 floats", adds, 50, 0.10),
    Case("MLP 64, forward", forward, 50, 0.35),
    Case("MLP 64, training step", training, 20, 0.60),
]


def captured(run: Function) -> Function:
    """The replay of what a function does."""
    side = m.Stream()
    with m.stream(side):
        for _ in range(3):
            run()
    graph = m.OpenRegGraph()
    with m.graph(graph, stream=side):
        run()
    return graph.replay


def measured(case: Case, rounds: int, scale: float) -> dict:
    functions = {
        "cpu_us": case.make("cpu"),
        "replay_us": captured(case.make("openreg")),
    }
    calls = max(1, int(case.calls * scale))
    seconds = best_of(functions, calls, rounds)
    row = {name: 1e6 * figure for name, figure in seconds.items()}
    ratio = row["replay_us"] / row["cpu_us"]
    within = ratio <= case.aim * TOLERANCE
    return row | {"ratio": ratio, "aim": case.aim, "within": within}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="of the calls")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    print(f"{'':24}{'CPU us':>10}{'replay us':>11}{'ratio':>7}{'aim':>6}")
    for case in CASES:
        row = rows[case.name] = measured(case, arguments.rounds, arguments.scale)
        verdict = "ok" if row["within"] else "over"
        print(
            f"{case.name:24}{row['cpu_us']:10.1f}{row['replay_us']:11.1f}"
            f"{row['ratio']:7.2f}{row['aim']:6.2f}  {verdict}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
