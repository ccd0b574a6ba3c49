"""Whether mixed precision is available."""

from .._lazy import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    """Whether there is no device, and so no mixed precision on it."""
    return not is_available()
