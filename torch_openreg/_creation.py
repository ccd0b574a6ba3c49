"""The listener for events and graphs that Python makes: the sanitizer, which finds those
that are left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listener: Callable[[str, Any], None] | None = None


def note(kind: str, made: Any) -> None:
    """Tell the listener, if there is one."""
    if listener is not None:
        listener(kind, made)
