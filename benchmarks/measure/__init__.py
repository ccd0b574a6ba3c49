"""What the benchmarks share: the best of several rounds, and a gate for a stream."""

import argparse
import ctypes
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TypeVar

import torch

Function = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)


def synchronize() -> None:
    """Waits for all work of the device."""
    torch.accelerator.synchronize()


def once(function: Function, calls: int, wait: Function = synchronize) -> float:
    """Seconds that a call takes, its work included."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    wait()
    return (time.perf_counter() - start) / calls


def settle() -> None:
    """Lets the OpenMP threads of who had the turn before go to sleep: they spin for
    some milliseconds, and that on the processors of who comes next."""
    time.sleep(0.03)


def best_of(
    functions: Mapping[Name, Function], calls: int, rounds: int
) -> dict[Name, float]:
    """The least seconds per call of each. They take turns, so that what else the
    machine does meets all of them."""
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        function()  # what happens once is not counted
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], once(function, calls))
    return best


def parse(description: str) -> argparse.Namespace:
    """The options of a benchmark of single calls."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000, help="in a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


class Gate:
    """Holds a stream until it is opened. Keep it until the stream is done."""

    def __init__(self, stream):
        import torch_openreg  # not before: a rival of the device uses this module too

        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)  # a sem_t and more
        assert self._libc.sem_init(self._semaphore, 0, 0) == 0
        library = Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"
        status = ctypes.CDLL(str(library)).orLaunchHostFunc(
            ctypes.c_void_p(stream.native_handle),
            ctypes.cast(self._libc.sem_wait, ctypes.c_void_p),
            self._semaphore,
        )
        assert status == 0

    def open(self):
        self._libc.sem_post(self._semaphore)
