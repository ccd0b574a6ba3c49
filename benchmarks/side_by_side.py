"""The same work on openreg and on the CPU, in turns, each in a process of its own.

    python benchmarks/side_by_side.py [--only add] [--rounds 7] [--threads 1]
                                      [--scale 1.0] [--json FILE]

A ratio is the device's time by the CPU's: lower is better. `aim` is what it is to
be, and a row is "over" if it is more than 5 % above. Compare the ratios of one run
only; figures of a busy machine say nothing.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import torch
from measure import once, settle
from measure.rival import Rival, serve
from measure.versus import TOLERANCE, Case
from torch import nn
from torch.nn import functional as F


def data(*shape, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device)


# --- operators ------------------------------------------------------------------


def binary(function, *shape):
    def make(device):
        x, y = data(*shape, device=device), data(*shape, device=device, seed=1)
        return lambda: function(x, y)

    return make


def unary(function, n=1024):
    def make(device):
        x = data(n, device=device)
        return lambda: function(x)

    return make


def square(x):
    return x.view(32, 32)


def gather(x):
    return square(x).gather(1, (square(x) > 0).long())


# Of 1024 numbers.
COMMON = {
    "relu_": lambda x: x.relu_(),
    "exp": torch.exp,
    "mul scalar": lambda x: x * 2.0,
    "where": lambda x: torch.where(x > 0, x, x),
    "sum": torch.sum,
    "softmax": lambda x: torch.softmax(square(x), 1),
    "layer_norm": lambda x: F.layer_norm(square(x), (32,)),
    "gather": gather,
    "cat": lambda x: torch.cat((x, x)),
    "view+t+slice": lambda x: square(x).t()[1:, ::2],
}
# These may cost a little more.
SELDOM = {
    "cumsum (boxed)": lambda x: torch.cumsum(x, 0),
    "sort (boxed)": torch.sort,
    "linalg.inv (boxed)": lambda x: torch.linalg.inv(square(x)),
    "nonzero (data-dependent)": torch.nonzero,
}


def operators():
    for n, calls, aim in (
        (8, 3000, 1.0),
        (1024, 3000, 1.0),
        (1 << 20, 60, 0.9),
        (1 << 24, 5, 0.5),
    ):
        yield Case(f"add {n}", binary(torch.add, n), calls, aim)
    for n, calls in ((64, 1000), (512, 30), (1024, 6)):
        yield Case(f"mm {n}", binary(torch.matmul, n, n), calls, 1.0)
    for name, function in COMMON.items():
        yield Case(f"{name} 1024", unary(function), 2000, 1.05)
    for name, function in SELDOM.items():
        calls = 100 if "linalg" in name else 2000
        yield Case(f"{name} 1024", unary(function), calls, 1.3)


# --- memory -----------------------------------------------------------------------


def empty(n):
    return lambda device: lambda: torch.empty(n, device=device)


def copy(to_device):
    def make(device):
        here, there = ("cpu", device) if to_device else (device, "cpu")
        source, target = data(1 << 24, device=here), torch.empty(1 << 24, device=there)
        return lambda: target.copy_(source)

    return make


def memory():
    yield Case("empty 1024", empty(1024), 3000, 1.0)
    yield Case("empty 4 Mi floats", empty(1 << 22), 500, 1.0)
    yield Case("copy 64 MiB host to device", copy(to_device=True), 5, 1.02)
    yield Case("copy 64 MiB device to host", copy(to_device=False), 5, 1.02)
    yield Case("item()", unary(torch.Tensor.item, n=1), 2000, 1.5)


# --- functions --------------------------------------------------------------------


def on_shapes(function, *shapes):
    def make(device):
        tensors = [
            data(*shape, device=device, seed=i) for i, shape in enumerate(shapes)
        ]
        return lambda: function(*tensors)

    return make


def lstm(device):
    torch.manual_seed(0)
    net, x = nn.LSTM(64, 64, 2).to(device), data(35, 20, 64, device=device)
    return torch.no_grad()(lambda: net(x))


def conv1d(x, weight):
    return F.conv1d(x, weight, padding=1)


def unique(x):
    return torch.unique((x * 10).int())


def interpolate(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear")


def functions():
    weight = (64, 32, 3)
    yield Case("forward LSTM 64", lstm, 20, 1.05)
    yield Case("unique 10 Ki", on_shapes(unique, (10240,)), 100, 1.1)
    yield Case("conv1d", on_shapes(conv1d, (16, 32, 200), weight), 50, 1.05)
    yield Case("interpolate", on_shapes(interpolate, (4, 16, 32, 32)), 30, 1.05)


# --- training ---------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.body(x).mean(1))


class Decoder(nn.Module):
    """The decoder of a small language model, as people write it."""

    def __init__(self, vocabulary=64, width=128, heads=4, depth=4):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(64, width)
        self.blocks = nn.ModuleList(self.block(width) for _ in range(depth))
        self.heads, self.head = heads, nn.Linear(width, 10)

    @staticmethod
    def block(width):
        wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        return nn.ModuleDict(
            {
                "before": nn.LayerNorm(width),
                "qkv": nn.Linear(width, 3 * width),
                "out": nn.Linear(width, width),
                "after": nn.LayerNorm(width),
                "feed": nn.Sequential(wide, nn.GELU(), narrow),
            }
        )

    def forward(self, x):
        tokens = x.abs().mul(20).long().clamp(max=63)
        h = self.tokens(tokens) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            q, k, v = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for part in block["qkv"](block["before"](h)).chunk(3, -1)
            )
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + block["out"](a.transpose(1, 2).flatten(-2))
            h = h + block["feed"](block["after"](h))
        return self.head(h.mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.body = kind(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


def mlp(width):
    layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def conv_net():
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def train(model, *shape, optimizer=torch.optim.SGD):
    def make(device):
        torch.manual_seed(0)
        net = model().to(device)
        chosen = optimizer(net.parameters(), lr=1e-3)
        x, y = data(*shape, device=device), torch.arange(shape[0], device=device) % 10

        def step():
            chosen.zero_grad()
            F.cross_entropy(net(x), y).backward()
            chosen.step()

        return step

    return make


def training():
    adam, adamw = torch.optim.Adam, torch.optim.AdamW
    for name, make, calls in (
        ("LSTM 64", train(lambda: Recurrent(nn.LSTM, 64), 20, 35, 64), 8),
        ("GRU 128", train(lambda: Recurrent(nn.GRU, 128), 20, 35, 128), 8),
        ("decoder", train(Decoder, 12, 64, optimizer=adamw), 4),
        ("MLP 64", train(lambda: mlp(64), 32, 64), 30),
        ("MLP 512", train(lambda: mlp(512), 64, 512), 10),
        ("MLP 512 Adam", train(lambda: mlp(512), 64, 512, optimizer=adam), 10),
        ("transformer", train(Encoder, 8, 64, 128), 4),
        ("conv net", train(conv_net, 8, 3, 32, 32), 8),
    ):
        yield Case(f"train {name}", make, calls, 1.0)


# --- the table --------------------------------------------------------------------


def cases():
    return [*operators(), *memory(), *functions(), *training()]


def measure(case, rival, options):
    """A row of figures, or of the error: one failure must not hide the others."""
    calls = max(1, round(case.calls * options.scale))
    cpu = device = float("inf")
    try:
        function = case.make(options.device)
        function()  # what happens once is not counted
        for _ in range(options.rounds):
            settle()
            cpu = min(cpu, rival.seconds(case.name, calls) * 1e6)
            settle()
            device = min(device, once(function, calls) * 1e6)
    except Exception as error:
        return {"error": (str(error).splitlines() or [type(error).__name__])[0]}
    ratio = device / cpu
    within = ratio <= case.aim * TOLERANCE
    figures = {"cpu_us": cpu, "device_us": device, "ratio": ratio, "aim": case.aim}
    return {**figures, "within": within}


def line(name, row):
    if "error" in row:
        return f"{name:28} FAILS: {row['error'][:90]}"
    return (
        f"{name:28} {row['cpu_us']:12.2f} {row['device_us']:12.2f} {row['ratio']:7.2f}"
        f" {row['aim']:6.2f}  {'ok' if row['within'] else 'over'}"
    )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", default="openreg")
    add("--only", default="", help="rows with this in their name")
    add("--rounds", type=int, default=7)
    add("--threads", type=int, default=torch.get_num_threads())
    add("--scale", type=float, default=1.0, help="of the number of calls")
    add("--json", type=Path, metavar="FILE", help="write the rows there as well")
    add("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    if options.serve:
        serve({case.name: case.make for case in cases()})
        return 0
    rows = {}
    head = f"{'':28} {'cpu us':>12} {options.device + ' us':>12}"
    print(f"{head} {'ratio':>7} {'aim':>6}")
    with Rival(Path(__file__).resolve(), options.threads) as rival:
        for case in cases():
            if options.only in case.name:
                rows[case.name] = measure(case, rival, options)
                print(line(case.name, rows[case.name]), flush=True)
    within = sum(row.get("within", False) for row in rows.values())
    print(f"{within} of {len(rows)} within 5 % of their aim")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any("error" in row for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
