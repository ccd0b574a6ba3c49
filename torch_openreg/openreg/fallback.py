"""Operators that make the host wait, because they have no queued form."""

from torch_openreg import _C


def fallback_report() -> dict[str, int]:
    """How often each operator waited for its stream so far, most calls first."""
    return dict(_C._fallbackReport())


def reset_fallback_report() -> None:
    """Set all counts to zero."""
    _C._resetFallbackReport()
