"""A finding as a page of HTML that needs nothing but a browser."""

from __future__ import annotations

import html

from ._finding import Access, Finding

LEFT, RIGHT, LANE, BOX = 230, 940, 120, 250
FIRST, SECOND = LEFT + 30, LEFT + 400  # where the boxes of the two accesses begin

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em; max-width: 1000px; }}
svg {{ width: 100%; height: auto; }}
pre {{ background: #f4f5f7; padding: 1em; overflow-x: auto; }}
text {{ font: 13px system-ui, sans-serif; }}
.where {{ fill: #555; font-size: 12px; }}
.missing {{ stroke: #d1242f; stroke-width: 2.5; stroke-dasharray: 7 5; fill: none; }}
</style>
</head>
<body>
<h1>{kind}</h1>
<p>{title}</p>
{picture}
<p><strong>{advice}</strong></p>
<pre>{report}</pre>
</body>
</html>
"""

ARROW = """<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8"
markerHeight="8" orient="auto"><path d="M0 0L10 5L0 10z" fill="#d1242f"/></marker></defs>
"""


def lane(name: str, y: int, right: int = RIGHT) -> str:
    """A line for what a stream does, with its name."""
    return (
        f'<text x="10" y="{y + 5}">{html.escape(name)}</text>'
        f'<line x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}" stroke="#8c959f"/>'
    )


def _box(access: Access, x: int, y: int) -> str:
    colour = "#ffd8d3" if access.writes else "#cfe3ff"
    place = ""
    if frame := access.frame:
        file = frame.file.rsplit("/", 1)[-1]
        place = f"{file}:{frame.line}, {frame.function}"
    return (
        f"<g><title>{html.escape(chr(10).join(access.lines()))}</title>"
        f'<rect x="{x}" y="{y - 24}" width="{BOX}" height="48" rx="6" fill="{colour}"'
        ' stroke="#57606a"/>'
        f'<text x="{x + 10}" y="{y - 5}">{html.escape(access.operator)} {access.verb}'
        f'</text><text class="where" x="{x + 10}" y="{y + 14}">{html.escape(place)}'
        "</text></g>"
    )


def _picture(earlier: Access, later: Access, memory: str) -> str:
    """The two streams as lanes, the accesses in the order of their calls, and the
    arrow that is missing between them."""
    top = 40
    below = top if earlier.stream == later.stream else top + LANE
    start, end = (FIRST + BOX, top), (SECOND, below)
    height = below + 70
    lanes = lane(earlier.stream, top)
    if below != top:
        lanes += lane(later.stream, below)
    return (
        f'<svg viewBox="0 0 {RIGHT + 20} {height}" role="img">{ARROW}{lanes}'
        f"{_box(earlier, FIRST, top)}{_box(later, SECOND, below)}"
        f'<path class="missing" marker-end="url(#head)" d="M{start[0]} {start[1]} '
        f'C{start[0] + 90} {start[1]} {end[0] - 90} {end[1]} {end[0]} {end[1]}"/>'
        f'<text x="{(start[0] + end[0]) // 2 + 20}" y="{(top + below) // 2}" '
        'fill="#d1242f">missing</text>'
        f'<text class="where" x="{LEFT}" y="{height - 12}">the calls, in their order; '
        f"both touch {html.escape(memory)}</text></svg>"
    )


def page(finding: Finding) -> str:
    """The whole page."""
    picture = ""
    if finding.earlier and finding.later:
        picture = _picture(finding.earlier, finding.later, finding.memory)
    return PAGE.format(
        kind=html.escape(finding.kind),
        title=html.escape(finding.title),
        picture=picture,
        advice=html.escape(finding.advice),
        report=html.escape(str(finding)),
    )
