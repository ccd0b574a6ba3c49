"""Whether there is a device, and its start, put off until it is needed.

Until then nothing of it exists and a process may fork; afterwards a child cannot
use it, since threads do not survive a fork.
"""

import atexit
import threading

from torch_openreg import _C

_count = 0
_initialized = False
_lock = threading.Lock()

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


def init() -> None:
    """Start the device now rather than with its first use."""
    _lazy_init()


def _lazy_init() -> None:
    """What everything that needs the device calls first; torch does, too."""
    global _initialized
    if is_initialized():
        return
    with _lock:
        if is_initialized():
            return  # another thread was first
        if _is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize OpenReg in forked subprocess. To use OpenReg "
                "with multiprocessing, you must use the 'spawn' start method"
            )
        _C._init()
        device_count()  # for children, see there
        atexit.register(_C._settleAutogradThreads)
        _initialized = True
