"""A bar for work that takes a while."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], total: int, what: str, show: bool | None) -> Iterator[T]:
    """The items, with a bar on the terminal: rich's, if it is installed.

    Args:
        show: whether to show it; by default if stderr is a terminal
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        yield from _plain(items, total, what)
        return
    yield from rich_track(
        items, description=what, total=total, console=Console(stderr=True)
    )


def _plain(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    for done, item in enumerate(items):
        print(f"\r{what} {done}/{total}", end="", file=sys.stderr, flush=True)
        yield item
    print(f"\r{what} {total}/{total}", file=sys.stderr)
