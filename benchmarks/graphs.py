"""Replays of a graph against the same work on the CPU without one, in turns.

    python benchmarks/graphs.py [--rounds 7] [--scale 1.0] [--only NAME] [--json FILE]

A ratio is the time of a replay by the CPU's: lower is better. `aim` is what it is to
be, and a row is "over" if it is more than 5 % above.
"""

import sys

import torch
from measure import Function
from measure.versus import Case, main
from torch import nn

m = torch.openreg


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


def captured(make):
    """Has the device replay what the CPU does."""
    return lambda device: make(device) if device == "cpu" else replay(make(device))


def replay(run: Function) -> Function:
    side = m.Stream()
    with m.stream(side):
        for _ in range(3):
            run()
    graph = m.OpenRegGraph()
    with m.graph(graph, stream=side):
        run()
    return graph.replay


CASES = [
    Case("100 adds of 8 floats", captured(adds), 50, 0.10),
    Case("MLP 64, forward", captured(forward), 50, 0.35),
    Case("MLP 64, training step", captured(training), 20, 0.60),
]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
