"""Whether there is a device, and its start, which is deferred until it is needed.

Until then nothing of it exists and a process may fork; afterwards a child cannot
use it, since threads do not survive a fork.
"""

import atexit
import threading
import traceback
from collections.abc import Callable
from typing import Any

from torch_openreg import _C

_count = 0
_initialized = False
_lock = threading.RLock()
_starting = False
_queued_calls: list[tuple[Callable[[], None], list[str]]] = []

_is_in_bad_fork = _C._isInBadFork


def device_count() -> int:
    """The number of visible devices. Starts nothing."""
    global _count
    # It cannot change, and a forked child can no longer ask.
    if _count == 0:
        _count = _C._getDeviceCount()
    return _count


def is_available() -> bool:
    """Whether there is a device to use. Starts nothing."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether the device was started in this process, by whatever call."""
    return _initialized and not _is_in_bad_fork()


class DeferredOpenRegCallError(Exception):
    """A call that was deferred until the start of the device has failed."""


def _lazy_call(callable: Callable[[], None], **kwargs: Any) -> None:
    """Call a function now or, if the device has not started, when it does.

    Keywords are accepted because torch.cuda accepts them.
    """
    with _lock:
        if not is_initialized():
            _queued_calls.append((callable, traceback.format_stack()))
            return
    callable()


def _run_queued_calls() -> None:
    for call, stack in _queued_calls:
        try:
            call()
        except Exception as error:
            raise DeferredOpenRegCallError(
                f"OpenReg call failed lazily at initialization with error: {error}\n\n"
                f"OpenReg call was originally invoked at:\n\n{''.join(stack)}"
            ) from error
    _queued_calls.clear()


def init() -> None:
    """Start the device now rather than with its first use."""
    _lazy_init()


def _lazy_init() -> None:
    """Everything that needs the device calls this first, and so does torch."""
    global _initialized, _starting
    if is_initialized():
        return
    with _lock:
        if is_initialized() or _starting:
            return  # another thread was first, or a queued call uses the device
        if _is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize OpenReg in forked subprocess. To use OpenReg "
                "with multiprocessing, you must use the 'spawn' start method"
            )
        _C._init()
        device_count()  # for children, see there
        _starting = True
        try:
            _run_queued_calls()
        finally:
            _starting = False
        atexit.register(_C._settleAutogradThreads)
        _initialized = True
        _C._noteStart()
