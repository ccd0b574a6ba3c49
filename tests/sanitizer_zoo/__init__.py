"""Small programs with one bug each, and their right twins.

A program is a function of `ok`: with it, it is right; without, it has a bug. The lines
of the two accesses have the comments `first` and `then`, or `bug` where there is one
place only.
"""

import inspect
import re
from typing import NamedTuple

import pytest
import torch
from device_name import NAME, m

N = 256

in_one_process = pytest.mark.in_threads("the sanitizer refuses device processes")


class Program(NamedTuple):
    """A function and what is to be found in it."""

    run: object
    kind: str

    @property
    def name(self):
        return self.run.__name__

    def line(self, mark):
        """The number of the line with that mark; None if there is none."""
        lines, start = inspect.getsourcelines(self.run)
        found = [i for i, text in enumerate(lines) if re.search(rf"# {mark}\b", text)]
        return start + found[0] if found else None


class Zoo:
    """Collects programs."""

    def __init__(self):
        self.programs = []

    def __call__(self, kind):
        def add(run):
            self.programs.append(Program(run, kind))
            return run

        return add


zoo = Zoo()
race = zoo("race")
reuse = zoo("reuse")


def ready(*shape, device=NAME, **options):
    """A tensor that all streams may use."""
    tensor = torch.ones(*(shape or (N,)), device=device, **options)
    m.synchronize(tensor.device)
    return tensor


def pinned(*shape):
    return torch.ones(*(shape or (N,))).pin_memory()


def raw(pointer, size):
    """A tensor over device memory that it does not own."""
    device = torch.device(NAME, 0)
    storage = torch._C._construct_storage_from_data_pointer(pointer, device, size)
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)


def now():
    return m.current_stream()


def record(stream):
    event = m.Event()
    event.record(stream)
    return event
