"""The levels, in the order in which a backend is built, and the checks of each."""

import dataclasses
import functools
import importlib
import os
import sys

from .check import base_id


@dataclasses.dataclass(frozen=True)
class Level:
    """A step of the guide. `groups` are the files of its checks."""

    number: int
    title: str
    groups: tuple
    page: str


LEVELS = (
    Level(1, "name and module", ("naming",), "autoload.md"),
    Level(2, "guard", ("guard",), "device.md"),
    Level(3, "allocator", ("memory",), "memory.md"),
    Level(4, "generator and hooks", ("generator",), "generator.md"),
    Level(
        5,
        "minimal operators and fallback",
        ("tensors", "copies", "fallback"),
        "minimal_set.md",
    ),
    Level(6, "autograd and training", ("autograd", "training"), "autograd.md"),
    Level(7, "operators", ("overrideable", "operators"), "operators_tools.md"),
    Level(
        8,
        "streams, pinned memory, caching allocator",
        ("streams", "pinned", "caching"),
        "streams.md",
    ),
    Level(
        9,
        "mixed precision, saving, sharing",
        ("amp", "saving", "sharing"),
        "amp.md",
    ),
    Level(10, "graphs", ("graphs",), "graphs.md"),
    Level(11, "torch.compile", ("compiling",), "compile.md"),
    Level(12, "distributed", ("distributed",), "distributed.md"),
    Level(
        13,
        "the contract: accelerator, errors, threads",
        ("contract", "errors", "threads"),
        "errors.md",
    ),
)
NUMBERS = tuple(level.number for level in LEVELS)


def import_torch():
    """Imports torch without any backend: devices are the workers' business."""
    if "torch" in sys.modules:
        return
    name = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        importlib.import_module("torch")
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


@functools.cache
def checks_of(group):
    """The checks of one file, as they are written there."""
    import_torch()
    return tuple(importlib.import_module(f"{__package__}.checks.{group}").CHECKS)


@functools.cache
def level_of(group):
    """The number of the level that a group of checks belongs to."""
    return next(level.number for level in LEVELS if group in level.groups)


@functools.cache
def checks(highest=None):
    """All checks up to a level; those with cases once."""
    return tuple(
        check
        for level in LEVELS
        if highest is None or level.number <= highest
        for group in level.groups
        for check in checks_of(group)
    )


@functools.cache
def find(base):
    """The check with an id, without a case; None if there is none."""
    return next((check for check in checks() if check.id == base), None)


def is_known(check_id):
    """Whether there is a check with the id; with a case, whether it has the case."""
    check = find(base_id(check_id))
    return check is not None and (
        check_id == check.id or check_id in [one.id for one in check.expand()]
    )
