"""Names for parts of a program, under the names ``torch.cuda.nvtx`` has.

A profiler that runs shows them: in a trace of :mod:`torch.profiler` a range is a
user annotation.
"""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.autograd.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_pushed = threading.local()
_started: dict[int, record_function] = {}
_handles = itertools.count(1)


def _begin(msg: str) -> record_function:
    record = record_function(msg)
    record.__enter__()
    return record


def _end(record: record_function) -> None:
    record.__exit__(None, None, None)


def range_push(msg: str) -> int:
    """Begin a range inside of those that the thread has begun.

    Returns its depth; the outermost has 0.
    """
    stack = _pushed.__dict__.setdefault("stack", [])
    stack.append(_begin(msg))
    return len(stack) - 1


def range_pop() -> int:
    """End the range that the thread began last, and return its depth."""
    stack = _pushed.__dict__.get("stack")
    if not stack:
        raise RuntimeError("range_pop() without a range_push() on this thread")
    _end(stack.pop())
    return len(stack)


def range_start(msg: str) -> int:
    """Begin a range that any thread may end, and return a handle for that."""
    handle = next(_handles)
    _started[handle] = _begin(msg)
    return handle


def range_end(range_id: int) -> None:
    """End the range that :func:`range_start` gave a handle for."""
    record = _started.pop(range_id, None)
    if record is None:
        raise RuntimeError(
            f"range_end() got {range_id}, which is not a handle that range_start() "
            "returned, or one whose range has ended already"
        )
    _end(record)


def mark(msg: str) -> None:
    """Mark a moment with a name."""
    _end(_begin(msg))


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Context or decorator that is a range; arguments go to ``msg.format()``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
