"""A check: a function that tests one property of a device, and its description."""

import dataclasses
import sys
from collections.abc import Callable

# What a vendor may declare absent; the rest every backend has.
PARTS = {
    "autoload": "`import torch` alone loads the backend",
    "devices": "more than one device",
    "float64": "64-bit floating point",
    "float16": "16-bit floating point",
    "bfloat16": "bfloat16",
    "complex": "complex numbers",
    "streams": "streams and events",
    "timing": "events that measure time",
    "pinned": "pinned host memory",
    "caching": "a caching allocator with figures",
    "capacity": "memory that can be used up in a test",
    "autocast": "mixed precision",
    "sharing": "memory that processes share",
    "graphs": "capture and replay",
    "profiler": "the profiler sees the device",
    "compile": "torch.compile",
    "inductor": "torch.compile's default backend",
    "distributed": "a process group",
}


@dataclasses.dataclass(frozen=True)
class Check:
    """One question to a device. `id` is the file and the name of its function."""

    id: str
    proves: str
    call: str  # PyTorch's, which a program would make
    write: str  # what the vendor writes if it fails
    page: str  # of the guide
    function: Callable = dataclasses.field(repr=False)
    needs: tuple = ()
    seconds: float = 120.0  # after which it counts as hung
    own_process: bool = False  # leaves the process in a state for nobody else
    cases: Callable | None = None  # -> names: the check runs once for each

    @property
    def group(self):
        """The file of the check, without its folder."""
        return self.id.split(".")[0]

    def expand(self):
        """The check itself, or one for each of its cases."""
        if self.cases is None:
            return [self]
        return [
            dataclasses.replace(self, id=f"{self.id}[{case}]", cases=None)
            for case in self.cases()
        ]


def check(*, call, write, page, needs=(), **options):
    """Makes a check of a function, whose docstring says what it proves, and adds it to
    the CHECKS of its module."""

    def make(function):
        module = sys.modules[function.__module__]
        group = function.__module__.rsplit(".", 1)[-1]
        unknown = set(needs) - set(PARTS)
        if unknown or not function.__doc__:
            raise ValueError(
                f"{group}.{function.__name__}: {unknown or 'no docstring'}"
            )
        one = Check(
            id=f"{group}.{function.__name__}",
            proves=" ".join(function.__doc__.split()),
            call=call,
            write=write,
            page=page,
            function=function,
            needs=tuple(needs),
            **options,
        )
        module.__dict__.setdefault("CHECKS", []).append(one)
        return function

    return make


def base_id(check_id):
    """`operators.values` of `operators.values[add]`."""
    return check_id.split("[")[0]


def case_of(check_id):
    """`add` of `operators.values[add]`; None for a check without cases."""
    return check_id.split("[", 1)[1][:-1] if "[" in check_id else None
