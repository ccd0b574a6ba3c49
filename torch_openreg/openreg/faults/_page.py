"""A failing schedule as a page of HTML that needs nothing but a browser."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch_openreg.sanitizer._page import ARROW, LEFT, PAGE, lane

from ._schedule import Task

if TYPE_CHECKING:
    from ._explore import Finding

STEP, BOX, HIGH, LATE = 170, 150, 90, 40
AROUND = 6  # how many tasks are shown before the first delay and after the last


def _shown(tasks: Sequence[Task], delays: Sequence[Task]) -> list[Task]:
    numbers = [task.number for task in delays] or [0]
    first, last = min(numbers) - AROUND, max(numbers) + AROUND
    return [task for task in tasks if first <= task.number <= last]


def _box(task: Task, x: int, y: int, late: bool) -> str:
    colour = "#ffd8d3" if late else "#cfe3ff"
    note = "delayed" if late else ""
    return (
        f"<g><title>{html.escape(str(task))}</title>"
        f'<rect x="{x}" y="{y - 22}" width="{BOX}" height="44" rx="6" fill="{colour}"'
        ' stroke="#57606a"/>'
        f'<text x="{x + 8}" y="{y - 4}">{html.escape(task.name[:22])}</text>'
        f'<text class="where" x="{x + 8}" y="{y + 14}">task {task.number} {note}</text>'
        "</g>"
    )


def _picture(tasks: Sequence[Task], delays: Sequence[Task]) -> str:
    """A lane for each stream, its tasks in the order of their calls, and an arrow from
    each delayed task to where it runs: after all that does not wait for it."""
    shown = _shown(tasks, delays)
    places = list(dict.fromkeys((task.device, task.stream) for task in shown))
    late = {task.number for task in delays}
    right = LEFT + STEP * len(shown) + LATE
    height = HIGH * len(places) + 40
    parts = [
        lane(f"stream {stream} of device {device}", 40 + HIGH * i, right)
        for i, (device, stream) in enumerate(places)
    ]
    for column, task in enumerate(shown):
        x = LEFT + 10 + STEP * column
        y = 40 + HIGH * places.index((task.device, task.stream))
        parts.append(_box(task, x, y, task.number in late))
        if task.number in late:
            parts.append(
                f'<path class="missing" marker-end="url(#head)" d="M{x + BOX} {y} '
                f'Q{(x + right) // 2} {y + LATE} {right} {y}"/>'
            )
    return (
        f'<svg viewBox="0 0 {right + 20} {height}" role="img">{ARROW}'
        f'{"".join(parts)}<text class="where" x="{LEFT}" y="{height - 8}">the tasks, in '
        "the order of their calls; a delayed one runs after all that does not wait for "
        "it</text></svg>"
    )


def page(finding: Finding) -> str:
    """The whole page."""
    advice = "Let the work that needs the delayed tasks wait for their stream."
    return PAGE.format(
        kind=html.escape(f"{finding.problem} at {finding.where}"),
        title=html.escape(finding.detail),
        picture=_picture(finding.tasks, finding.delays),
        advice=advice if finding.delays else "",
        report=html.escape(str(finding)),
    )
