"""What a profile costs an operator, on openreg and on the CPU.

    python benchmarks/profiler.py [--calls 2000] [--rounds 9] [--json FILE]

An addition of eight numbers is timed without a profiler, under one that traces the
host alone, and under one that traces the device too. What the device's rows cost is
the difference of the last two. Compare figures of one run only.
"""

import contextlib
import json
import sys

import torch
from measure import once, parse
from torch.profiler import ProfilerActivity, profile

HOST, DEVICE = ProfilerActivity.CPU, ProfilerActivity.PrivateUse1
PROFILES = {
    "no profiler": contextlib.nullcontext,
    "host": lambda: profile(activities=[HOST]),
    "host and device": lambda: profile(activities=[HOST, DEVICE]),
}


def add(device):
    x, y = torch.ones(8, device=device), torch.ones(8, device=device)
    return lambda: torch.add(x, y)


def nanoseconds(device, options):
    """The least per call under each profile; they take turns."""
    function = add(device)
    names = [name for name in PROFILES if device != "cpu" or "device" not in name]
    best = dict.fromkeys(names, float("inf"))
    for _ in range(options.rounds):
        for name in names:
            with PROFILES[name]():
                function()
                best[name] = min(best[name], once(function, options.calls) * 1e9)
    return best


def main():
    options = parse(__doc__)
    torch.set_num_threads(1)
    figures = {device: nanoseconds(device, options) for device in ("cpu", "openreg")}
    device = figures["openreg"]
    device["rows of the device"] = device["host and device"] - device["host"]
    print(f"{'add 8':20} {'cpu ns':>8} {'openreg ns':>10}")
    for name, time in device.items():
        cpu = figures["cpu"].get(name)
        print(f"{name:20} {'' if cpu is None else format(cpu, '.0f'):>8} {time:10.0f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
