"""Sequences of allocations, and what the allocator's statistics say after each step."""

import functools
import json
import os
import re
from pathlib import Path

import torch
from observer import MODULE, case, plain

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

RECORD = json.loads((Path(__file__).parent / "memory.json").read_text())
FIGURES = RECORD["figures"]


def figures():
    """Names with brackets are functions, the others are keys of memory_stats()."""
    stats = MODULE.memory_stats()
    return [
        getattr(MODULE, name[:-2])() if name.endswith("()") else stats.get(name)
        for name in FIGURES
    ]


def segments():
    """The snapshot without its addresses."""
    found = [
        [
            segment["segment_type"],
            segment["total_size"],
            segment["allocated_size"],
            segment["active_size"],
            "default" if segment["stream"] == 0 else "other",
            [f"{block['size']} {block['state']}" for block in segment["blocks"]],
        ]
        for segment in MODULE.memory_snapshot()
    ]
    return sorted(found, key=str)


def sentences(error):
    return re.split(r"(?<=\.)\s+", plain(str(error)))


class Trace:
    """Steps are made lazily: each is taken when the ones before it were.

    A step has two labels, one for what the call gave and one for the figures after
    it. A tensor is told by its address: "block 0" is the first one seen.
    """

    def __init__(self, observer):
        self.o = observer
        self.tensors = {}
        self._streams = {}
        self._addresses = []
        self._steps = 0

    def step(self, name, call=lambda: None):
        number = self._steps
        self._steps += 1
        yield f"{number} {name}", lambda: self._outcome(call)
        yield f"{number} figures", figures

    def alloc(self, stream=None, **sizes):
        """Allocates so many bytes under each name; stream 0 is the default one."""
        where = "" if stream is None else f" on stream {stream}"
        for name, size in sizes.items():
            call = functools.partial(self.make, name, size, stream)
            yield from self.step(f"alloc {name} {size}{where}", call)

    def free(self, *names):
        for name in names:
            yield from self.step(f"free {name}", functools.partial(self.drop, name))

    def let(self, name, step, call):
        """A step whose result is kept under a name."""
        return self.step(step, lambda: self.tensors.update({name: call()}))

    def empty_cache(self):
        return self.step("empty_cache", self.o.m.empty_cache)

    def synchronize(self):
        return self.step("synchronize", self.o.sync)

    def record_stream(self, name, stream):
        return self.step(
            f"record_stream {name} on {stream}",
            lambda: self.tensors[name].record_stream(self.stream(stream)),
        )

    def limit(self, size):
        total = self.o.m.get_device_properties(0).total_memory
        fraction = (size + MIB) / total
        return self.step(
            f"limit {size}", lambda: self.o.m.set_per_process_memory_fraction(fraction)
        )

    # --- what steps do --------------------------------------------------------

    def stream(self, number):
        if number not in self._streams:
            m = self.o.m
            self._streams[number] = m.Stream() if number else m.default_stream()
        return self._streams[number]

    def make(self, name, size, stream=None):
        if stream is None:
            self.tensors[name] = self.o.bytes(size)
        else:
            with self.o.m.stream(self.stream(stream)):
                self.tensors[name] = self.o.bytes(size)
        return self.tensors[name]

    def drop(self, name):
        del self.tensors[name]

    def _outcome(self, call):
        try:
            result = call()
        except torch.OutOfMemoryError as error:
            # Other sentences are about the card.
            told = [s for s in sentences(error) if re.match("Tried|.*PyTorch, and", s)]
            return "out of memory: " + " ".join(told)
        if not isinstance(result, torch.Tensor):
            return result
        address = result.data_ptr()
        if not address:
            return "no block"
        if address not in self._addresses:
            self._addresses.append(address)
        return f"block {self._addresses.index(address)}"


def configure(settings):
    """Before the device is used, in the process of the case."""
    os.environ["PYTORCH_ALLOC_CONF"] = settings


def trace(name, settings=None):
    """Makes a case of a function from a Trace to groups of steps."""

    def put(function):
        @case("memory", name)
        def run(o):
            if settings:
                configure(settings)
            o.m.init()
            t = Trace(o)
            yield from t.step("start")
            for steps in function(t):
                yield from steps
            yield "segments", segments

        return function

    return put
