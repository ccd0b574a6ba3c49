"""Sizes and tables for people to read."""

import sys
from collections.abc import Iterable, Sequence


def size(count: float) -> str:
    """Bytes with a unit, such as `1.50 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} TiB"


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: int = 0,
) -> None:
    """Print a table, the first `right` columns right-aligned; with lines around it
    if rich is there and somebody watches."""
    rows = list(rows)
    try:
        import rich.markup
        import rich.table
    except ImportError:
        rich = None
    if rich and sys.stdout.isatty():
        drawn = rich.table.Table(title=title, title_justify="left")
        for i, column in enumerate(columns):
            drawn.add_column(column, justify="right" if i < right else "left")
        for row in rows:
            drawn.add_row(*map(rich.markup.escape, row))
        rich.print(drawn)
        return
    print(title)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in [columns, *rows]:
        cells = (
            cell.rjust(width) if i < right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join(cells).rstrip())
