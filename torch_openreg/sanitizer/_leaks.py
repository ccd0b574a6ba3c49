"""What a program leaves: memory, events and graphs."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch_openreg import _creation

if TYPE_CHECKING:
    from ._finding import Finding
    from ._places import Stack

# Those made since the sanitizer was enabled, with the stack of their making.
_objects: weakref.WeakKeyDictionary[Any, tuple[str, Stack]]
_objects = weakref.WeakKeyDictionary()


def _stack_here() -> Stack:
    from ._places import Frame

    frames, frame = [], sys._getframe(3)
    while frame:
        code = frame.f_code
        frames.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(frames)


def _note(kind: str, made: Any) -> None:
    _objects[made] = (kind, _stack_here())


def watch() -> None:
    """Begin with nothing."""
    _objects.clear()
    _creation.listener = _note


def find() -> Iterator[Finding]:
    """What is still there."""
    from torch_openreg import _C

    from ._finding import make_leak
    from ._places import stack

    gc.collect()
    _creation.listener = None
    for block in _C._sanitizerLiveBlocks():
        kind = "pinned-memory" if block["pinned"] else "device-memory"
        frames = block["allocated"]["frames"] if block["allocated"] else []
        yield make_leak(kind, block["end"] - block["begin"], stack(frames))
    for kind, frames in list(_objects.values()):
        yield make_leak(kind, 0, frames)
