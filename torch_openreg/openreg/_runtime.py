"""libopenreg's own functions, and the codes that they return."""

from types import ModuleType

from torch_openreg import _C

from ._lazy import _lazy_init


def openregrt() -> ModuleType:
    """Functions of libopenreg, the device's runtime, under their C names.

    Addresses and handles are ints. A function that can fail returns a code for
    :func:`check_error`.
    """
    _lazy_init()
    return _C._openregrt


class openregStatus:
    """Codes that functions of libopenreg return."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 600


class OpenRegError(RuntimeError):
    """A function of libopenreg has failed.

    Args:
        code: what it returned
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"{_C._openregrt.orGetErrorString(code)} ({code})")


def check_error(res: int) -> None:
    """Raise an :class:`OpenRegError` unless a code means success."""
    if res != openregStatus.SUCCESS:
        raise OpenRegError(res)
