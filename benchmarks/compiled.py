"""Inductor's code on the device against Inductor's code on the CPU, in turns.

    python benchmarks/compiled.py [--rounds 7] [--scale 1.0] [--only NAME] [--json FILE]

A ratio is the device's time by the CPU's: lower is better. `aim` is what it is to be,
and a row is "over" if it is more than 5 % above. Rows of compile time compile anew in
an empty cache; "reduce-overhead" on the device replays graphs, and is compared with
the default mode on the CPU.
"""

import sys

import torch
from measure.versus import Case, main
from torch import nn
from torch._inductor.utils import fresh_cache


def mlp(width):
    layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(32, width)


def transformer(dropout):
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return encoder, torch.randn(8, 64, 128)


def conv_net():
    layers = [
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)),
        *(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    ]
    return nn.Sequential(*layers), torch.randn(8, 3, 32, 32)


MODELS = {
    "MLP 64": lambda: mlp(64),
    "MLP 512": lambda: mlp(512),
    "transformer": lambda: transformer(0.0),
    "transformer, dropout": lambda: transformer(0.1),
    "conv net": conv_net,
}


def on(device, build):
    torch.manual_seed(0)
    model, x = build()
    return model.to(device), x.to(device)


def add(device):
    x, y = torch.ones(8, device=device), torch.ones(8, device=device)
    plus = torch.compile(torch.add)
    return lambda: plus(x, y)


def forward(build, mode=None):
    def make(device):
        model, x = on(device, build)
        compiled = torch.compile(model, mode=None if device == "cpu" else mode)

        def run():
            with torch.no_grad():
                return compiled(x)

        for _ in range(3):  # reduce-overhead warms up, then records
            run()
        return run

    return make


def training(build):
    def make(device):
        model, x = on(device, build)
        compiled = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)

        def step():
            optimizer.zero_grad()
            compiled(x).square().mean().backward()
            optimizer.step()

        return step

    return make


def compilation(build):
    def make(device):
        model, x = on(device, build)

        def run():
            torch._dynamo.reset()
            with fresh_cache():
                torch.compile(model)(x).sum().backward()

        return run

    return make


CASES = [
    Case("add 8", add, 500, 1.00),
    *(Case(f"forward {name}", forward(b), 20, 1.00) for name, b in MODELS.items()),
    *(Case(f"train {name}", training(b), 10, 1.00) for name, b in MODELS.items()),
    Case(
        "reduce-overhead, forward MLP 64",
        *(forward(MODELS["MLP 64"], "reduce-overhead"), 50, 0.67),
    ),
    *(
        Case(f"compile {name}", compilation(MODELS[name]), 1, 1.05)
        for name in ("MLP 64", "transformer", "conv net")
    ),
]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
