"""Runs small cases on the device and tells the outcome of each as JSON.

The same cases ran on a GPU; golden.json and misuse.json have what it did. A case is
a generator of (label, function) pairs; the functions are called one by one, and what
they return or raise is the outcome under that label.

    python observer.py        {"section/case": {label: outcome}} on standard output
    python observer.py api/*  only of cases with such names

Every case has a process of its own, forked from one that has not used the device; a
case `apart` has one for each label, because its functions break the device.
"""

import fnmatch
import json
import os
import re
import resource
import signal
import sys
import threading
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from gate import Gate

NAME = torch.accelerator.current_accelerator().type  # or, in its place, CUDA
MODULE = torch.get_device_module(NAME)
Graph = MODULE.CUDAGraph if NAME == "cuda" else MODULE.OpenRegGraph
CASES = {}


def case(section, name, apart=False, environment=None):
    def put(function):
        CASES[f"{section}/{name}"] = function, apart, environment or {}
        return function

    return put


class Busy:
    """Work that keeps the current stream busy until somebody opens it.

    A call that waits for it would never come back, so it opens itself in the end.
    Whether it had to is how the cases tell waiting calls from others.
    """

    patience = 0.5  # seconds

    def __init__(self):
        self._gate = Gate(MODULE.current_stream())
        self._timer = threading.Timer(self.patience, self.open)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self.running = True
        self._timer.start()

    def open(self):
        with self._lock:
            if self.running:
                self._timer.cancel()
                self.running = False
                self._gate.open()


class Observer:
    """What a case works with; its name for the device's module is `m`."""

    m = MODULE
    device = NAME

    def __init__(self):
        self._busy = []

    def busy(self):
        self._busy.append(Busy())
        return self._busy[-1]

    def sync(self):
        for busy in self._busy:
            busy.open()
        self.m.synchronize()

    def waits(self, function):
        """Whether a call waits for the work that is running."""
        function()
        return not self._busy[-1].running

    def on(self, stream, function):
        with self.m.stream(stream):
            return function()

    def zeros(self, n=4):
        x = torch.zeros(n, device=self.device)
        self.sync()
        return x

    def bytes(self, n):
        return torch.empty(n, dtype=torch.uint8, device=self.device)


def plain(value):
    """As the record has it: tensors as lists, the device's name aside."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, str):
        text = re.sub(r"0x[0-9a-f]{5,}", "<ptr>", value)
        # Its variables have one name, whatever the device's is.
        names = f"{NAME}|privateuse(one|1)|(?-i:OPENREG(?=_))"
        text = re.sub(names, "<dev>", text, flags=re.IGNORECASE)
        return text.replace("torch_<dev>.<dev>", "torch.<dev>")
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def attempt(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(function())
        except Exception as error:
            line = (str(error).strip().splitlines() or [""])[0]
            return f"raises {type(error).__name__}: {plain(line)[:400]}"


def observe(function):
    observer = Observer()
    outcome = {}
    for label, ask in function(observer):
        outcome[label] = attempt(ask)
    attempt(observer.sync)  # the device may be broken
    return outcome


def in_child(function):
    """What a function returns, as JSON can tell it, in a process forked for it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        # Some cases ask for more memory than any host has; it shall say no.
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 40, most))
        try:
            outcome = function()
        except BaseException as error:
            outcome = {"the case failed": f"{type(error).__name__}: {error}"}
        os.write(write, json.dumps(outcome).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"the case died": f"status {status}"}


def observe_in_child(function, apart, environment):
    if not apart:

        def run():
            os.environ.update(environment)
            return observe(function)

        return in_child(run)
    return {
        label: in_child(lambda ask=ask: attempt(ask))
        for label, ask in function(Observer())
    }


def main():
    import api_cases  # noqa: F401
    import graph_cases  # noqa: F401
    import misuse_cases  # noqa: F401
    import profiler_cases  # noqa: F401
    import rng_cases  # noqa: F401
    import stream_cases  # noqa: F401

    # By that name the cases have registered: as a script this file is another.
    from observer import CASES

    wanted = sys.argv[1] if len(sys.argv) > 1 else "*"
    names = fnmatch.filter(CASES, wanted)
    print(json.dumps({name: observe_in_child(*CASES[name]) for name in names}))


if __name__ == "__main__":
    main()
