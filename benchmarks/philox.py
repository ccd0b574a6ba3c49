"""A GPU's random numbers (OPENREG_RNG=philox) beside the CPU's.

    python benchmarks/philox.py [--calls 2000] [--rounds 9] [--json FILE]

Each row fills a tensor of 1 Mi elements on the device and on the CPU, which take turns.
A hundredth of the calls is made, with the threads that torch has.
"""

import json
import os
import sys

os.environ.setdefault("OPENREG_RNG", "philox")  # read when torch is imported

import torch  # noqa: E402
from measure import best_of, parse  # noqa: E402

COUNT = 1 << 20
DRAWS = {
    "uniform_": torch.Tensor.uniform_,
    "normal_": torch.Tensor.normal_,
    "exponential_": torch.Tensor.exponential_,
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "random_": torch.Tensor.random_,
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.1),
}


def main():
    options = parse(__doc__)
    calls = max(options.calls // 100, 1)
    rows = {}
    print(f"{'ms per 1 Mi':14} {'philox':>8} {'CPU':>8} {'ratio':>6}")
    for name, draw in DRAWS.items():
        tensors = {
            device: torch.ones(COUNT, device=device) for device in ("openreg", "cpu")
        }
        best = best_of(
            {device: lambda x=x: draw(x) for device, x in tensors.items()},
            calls,
            options.rounds,
        )
        device, cpu = best["openreg"] * 1e3, best["cpu"] * 1e3
        rows[name] = {"philox": device, "cpu": cpu}
        print(f"{name:14} {device:8.2f} {cpu:8.2f} {device / cpu:6.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
