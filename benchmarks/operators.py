"""What an operator on openreg costs, stage by stage, next to the same on the CPU.

    python benchmarks/operators.py [--calls 2000] [--rounds 9] [--json FILE]

The first table has calls of operators, timed as they are. The second one has the
stages that such a call is made of, each the difference of calls that differ in that
stage alone. Both say what they measure. Tensors are tiny, one thread runs, so that
the kernel itself is next to nothing. Compare figures of one run only.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from measure import Function, Gate, best_of, once, parse, synchronize

DEVICES = ("cpu", "openreg")
SMALL = 8  # numbers
LARGE = 1 << 15  # too many bytes for a launch to run at once
TENSORS = 4  # by how many the two lists differ that tell the cost of one more


# --- calls ------------------------------------------------------------------------


class Call(NamedTuple):
    name: str
    make: Callable[[str], Function]  # of a device
    about: str


def numbers(device, n=SMALL):
    return torch.ones(n, device=device)


def add(n, out=False):
    def make(device):
        x, y, z = (numbers(device, n) for _ in range(3))
        return (lambda: torch.add(x, y, out=z)) if out else (lambda: torch.add(x, y))

    return make


def binary(function):
    def make(device):
        x, y = numbers(device), numbers(device)
        return lambda: function(x, y)

    return make


def unary(function):
    def make(device):
        x = numbers(device)
        return lambda: function(x)

    return make


def add_number(device):
    x, number = numbers(device), torch.tensor(2.0)
    return lambda: torch.add(x, number)


def cat(count):
    def make(device):
        tensors = [numbers(device) for _ in range(count)]
        out = numbers(device, SMALL * count)
        return lambda: torch.cat(tensors, out=out)

    return make


def empty(device):
    return lambda: torch.empty(SMALL, device=device)


CALLS = [
    Call("is_set_to", binary(torch.Tensor.is_set_to), "dispatched, and nothing else"),
    Call("view", unary(lambda x: x.view(SMALL)), "a tensor without memory"),
    Call("empty", empty, "a tensor with memory"),
    Call("add 0 out", add(0, out=True), "structured, no number, no output made"),
    Call("add 8 out", add(SMALL, out=True), "structured, no output made"),
    Call("add 8", add(SMALL), "structured"),
    Call("add 8 host number", add_number, "the same, with a number of the CPU"),
    Call("relu_ 8", unary(torch.relu_), "remembered, in place"),
    Call("relu 8", unary(torch.relu), "remembered"),
    Call("equal 8", binary(torch.equal), "typed, gives a bool"),
    Call("rsub 8", binary(torch.rsub), "boxed, prepared"),
    Call("sub 8", binary(torch.sub), "boxed by the fallback, prepared at each call"),
    Call("cat 1 x 8", cat(1), "structured, a list of one tensor"),
    Call(f"cat {1 + TENSORS} x 8", cat(1 + TENSORS), f"a list with {TENSORS} more"),
    Call("item", unary(lambda x: x[0].item()), "a view, and the host waits"),
]


def time_calls(options):
    """Name -> nanoseconds on each device."""
    functions = {
        (call.name, device): call.make(device) for call in CALLS for device in DEVICES
    }
    best = best_of(functions, options.calls, options.rounds)
    return {
        call.name: {device: best[call.name, device] * 1e9 for device in DEVICES}
        for call in CALLS
    }


# --- launches to a busy stream ------------------------------------------------------


def behind_a_gate(function, calls, rounds):
    """Best nanoseconds per call of queueing, and of what is left to do after it."""
    function()
    best = {"launch": float("inf"), "run": float("inf")}
    for _ in range(rounds):
        synchronize()
        gate = Gate(torch.openreg.current_stream())
        start = time.perf_counter()
        for _ in range(calls):
            function()
        queued = time.perf_counter()
        gate.open()
        synchronize()
        for part, seconds in (
            ("launch", queued - start),
            ("run", time.perf_counter() - queued),
        ):
            best[part] = min(best[part], seconds / calls * 1e9)
    return best


def once_queued(function, rounds):
    """Best nanoseconds of one call and the wait for it."""
    return 1e9 * min(once(function, calls=1) for _ in range(rounds))


def fill(device, n=SMALL):
    x = numbers(device, n)
    return lambda: x.fill_(1.0)


def time_queue(options):
    """Name -> nanoseconds."""
    calls = min(options.calls, 500)  # fewer than a stream takes before it waits
    add_8 = behind_a_gate(add(SMALL)("openreg"), calls, options.rounds)
    fill_8 = behind_a_gate(fill("openreg"), calls, options.rounds)
    idle = best_of({"idle": synchronize}, options.calls, options.rounds)["idle"]
    return {
        "add 8, queued": add_8["launch"],
        "add 8, from the queue": add_8["run"],
        "fill_ 8, queued": fill_8["launch"],
        "synchronize, idle": idle * 1e9,
        "fill_ large, waited for": once_queued(
            fill("openreg", LARGE), options.rounds * 20
        ),
        "fill_ large, CPU": once_queued(fill("cpu", LARGE), options.rounds * 20),
    }


# --- stages -----------------------------------------------------------------------


def stages(calls, queue):
    """(stage, nanoseconds, how it was found)"""

    def cpu(name):
        return calls[name]["cpu"]

    def device(name):
        return calls[name]["openreg"]

    def extra(name):
        return device(name) - cpu(name)

    more = f"cat {1 + TENSORS} x 8"
    return [
        ("dispatch", device("is_set_to"), "is_set_to, with the call from Python"),
        ("kernel", cpu("add 8 out"), "add 8 out on the CPU, with its own dispatch"),
        (
            "frame of a call",
            extra("add 0 out"),
            "add 0 out, device - CPU: check, aliases, launch, finish",
        ),
        (
            "one more tensor",
            (extra(more) - extra("cat 1 x 8")) / TENSORS,
            f"{more} - cat 1 x 8, device - CPU, for each: check, alias",
        ),
        (
            "host number",
            extra("add 8 host number") - extra("add 8"),
            "add 8 with one of the CPU, device - CPU: check by boxed arguments",
        ),
        ("output: memory", extra("empty"), "empty, device - CPU"),
        (
            "output: wrap",
            extra("relu 8") - extra("relu_ 8") - extra("empty"),
            "relu - relu_, device - CPU, less its memory",
        ),
        ("tier: boxed", extra("rsub 8") - extra("add 8"), "rsub - add, device - CPU"),
        ("tier: fallback", extra("sub 8") - extra("add 8"), "sub - add, device - CPU"),
        (
            "queue",
            queue["add 8, queued"] - device("add 8"),
            "add 8 behind a gate - add 8 at once: shapes, aliases that live on",
        ),
        ("launch, busy stream", queue["fill_ 8, queued"], "fill_ behind a gate"),
        (
            "run from the queue",
            queue["add 8, from the queue"],
            "add 8, after the gate is open",
        ),
        ("wait, idle", queue["synchronize, idle"], "synchronize, all devices"),
        (
            "wait for the worker",
            queue["fill_ large, waited for"] - queue["fill_ large, CPU"],
            f"fill_ of {LARGE} numbers, which is queued, and synchronize - CPU",
        ),
    ]


# --- the tables -------------------------------------------------------------------


def show(calls, queue, found):
    print(f"{'call':24} {'cpu ns':>8} {'openreg ns':>10} {'ratio':>6}")
    for name, _, about in CALLS:
        cpu, device = (calls[name][device] for device in DEVICES)
        print(f"{name:24} {cpu:8.0f} {device:10.0f} {device / cpu:6.2f}  {about}")
    for name, nanoseconds in queue.items():
        print(f"{name:24} {'':8} {nanoseconds:10.0f}")
    print(f"\n{'stage':24} {'ns':>8}")
    for name, nanoseconds, how in found:
        print(f"{name:24} {nanoseconds:8.0f}  {how}")


def main():
    options = parse(__doc__)
    torch.set_num_threads(1)
    calls, queue = time_calls(options), time_queue(options)
    found = stages(calls, queue)
    show(calls, queue, found)
    if options.json:
        figures = {name: nanoseconds for name, nanoseconds, _ in found}
        report = {"calls_ns": calls, "queue_ns": queue, "stages_ns": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
