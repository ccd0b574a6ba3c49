"""A snapshot as a page of HTML that needs nothing but a browser."""

import html
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._snapshot import History, Step, blocks_of, devices, place
from ._text import size

SITES = 10  # that have a colour of their own
STEPS = 1500  # drawn of a timeline
SEGMENTS = 300  # drawn of a device
CELLS = 1000  # a block narrower than one is drawn together with its neighbours

COLOURS = (
    *("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951"),
    *("#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#b8860b"),
)
OTHER = "#9498a0"

# What a block's state is called, and its colour. Every other state is of a block
# that was freed while a stream still used it.
STATES = {
    "active_allocated": ("allocated", "#4269d0"),
    "inactive": ("free", "#dfe3e8"),
}
PENDING = ("freed, a stream still uses it", "#efb118")

WIDTH, HEIGHT, LEFT, TOP = 1000, 280, 90, 10

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em; max-width: 1150px; }}
svg {{ width: 100%; height: auto; display: block; }}
text {{ font-size: 11px; fill: #444; }}
table {{ border-collapse: collapse; margin: 1em 0; white-space: nowrap;
  display: block; max-width: 100%; overflow-x: auto; }}
td, th {{ padding: 2px 12px 2px 0; text-align: right; }}
td:last-child, th:last-child {{ text-align: left; font-family: monospace; }}
.key {{ display: inline-block; width: 12px; height: 12px; margin-right: 6px; }}
.told {{ font-family: monospace; white-space: pre; min-height: 1.4em; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""

# Tells the figures below the pointer. The rest of the page does without.
SCRIPT = """
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
function size(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(n) < 1024) return n.toFixed(unit === "B" ? 0 : 2) + " " + unit;
    n /= 1024;
  }
  return n.toFixed(2) + " TiB";
}
function describe(device, at) {
  const [time, allocated, reserved, ...sites] = device.steps[at];
  const lines = [
    "+" + (time / 1e6).toFixed(6) + " s: " + size(allocated) +
      " allocated, " + size(reserved) + " reserved",
  ];
  sites.forEach((bytes, i) => {
    if (bytes) lines.push(size(bytes).padStart(12) + "  " + device.sites[i]);
  });
  return lines.join("\\n");
}
for (const device of data.devices) {
  const svg = document.getElementById("timeline-" + device.index);
  if (!svg) continue;
  const told = document.getElementById("told-" + device.index);
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * data.width - data.left;
    const last = device.steps.length - 1;
    const at = Math.floor(x / (data.width - data.left) * device.steps.length);
    told.textContent = describe(device, Math.min(Math.max(at, 0), last));
  });
}
"""


# --- the timeline -----------------------------------------------------------------


def _thin(steps: Iterator[Step], count: int) -> list[Step]:
    """Some STEPS of about `count`: the highest of each stretch, so the peak stays."""
    stretch = iter(lambda: list(itertools.islice(steps, -(-count // STEPS))), [])
    return [max(part, key=lambda step: step.allocated) for part in stretch]


def _outline(levels: Sequence[float], highest: float) -> list[str]:
    """The points of a line of stairs, one stair for each level."""
    width = (WIDTH - LEFT) / len(levels)
    points = []
    for i, level in enumerate(levels):
        y = TOP + HEIGHT * (1 - level / highest)
        points += [
            f"{LEFT + i * width:.1f},{y:.1f}",
            f"{LEFT + (i + 1) * width:.1f},{y:.1f}",
        ]
    return points


def _timeline(history: History, steps: Sequence[Step], places: Sequence[str]) -> str:
    highest = max(max(step.allocated, step.reserved) for step in steps) or 1
    below = [0] * len(steps)
    parts = []
    for i in range(len(places) + 1):
        if i < len(places):
            title, colour = places[i], COLOURS[i]
            above = [
                b + step.sites[title] for b, step in zip(below, steps, strict=True)
            ]
        else:
            title, colour = "all others", OTHER
            above = [step.allocated for step in steps]
        points = _outline(above, highest) + _outline(below, highest)[::-1]
        parts.append(
            f'<polygon points="{" ".join(points)}" fill="{colour}">'
            f"<title>{html.escape(title)}</title></polygon>"
        )
        below = above
    reserved = " ".join(_outline([step.reserved for step in steps], highest))
    parts.append(
        f'<polyline points="{reserved}" fill="none" stroke="#222" '
        'stroke-dasharray="4 3"><title>reserved</title></polyline>'
    )
    for i in range(5):
        y = TOP + HEIGHT * (1 - i / 4)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#0002"/>'
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">'
            f"{size(highest * i / 4)}</text>"
        )
    return (
        f'<svg id="timeline-{history.device}" viewBox="0 0 {WIDTH} '
        f'{HEIGHT + 2 * TOP}" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    )


# --- the segments -----------------------------------------------------------------


def _block_title(blocks: list[dict]) -> str:
    total = sum(block["size"] for block in blocks)
    state, _ = STATES.get(blocks[0]["state"], PENDING)
    if len(blocks) > 1:
        return f"{len(blocks)} blocks, {size(total)}, {state}"
    (block,) = blocks
    requested = block.get("requested_size", 0)
    lines = [f"{size(total)}, {state}"]
    if requested and requested != total:
        lines[0] += f", {size(requested)} requested"
    if block["state"] != "inactive":
        lines.append(place(block.get("frames", [])))
    return "\n".join(lines)


def _groups(segment: dict) -> Iterable[list[dict]]:
    """The blocks, with neighbours of one state that are too narrow put together."""
    narrow = segment["total_size"] / CELLS
    group: list[dict] = []
    for block in blocks_of(segment):
        joins = (
            group
            and block["state"] == group[0]["state"]
            and block["size"] < narrow
            and group[-1]["size"] < narrow
        )
        if group and not joins:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _segments(history: History) -> str:
    held = (segment for segment in history.segments if segment["total_size"])
    shown = sorted(held, key=lambda s: (-s["total_size"], s["address"]))
    left_out = shown[SEGMENTS:]
    shown = shown[:SEGMENTS]
    if not shown:
        return "<p>The device holds no memory.</p>"
    scale = (WIDTH - 2 * LEFT) / shown[0]["total_size"]
    parts = []
    for row, segment in enumerate(shown):
        y = row * 20
        kind = segment.get("segment_type", "")
        label = html.escape(f"{size(segment['total_size'])} {kind}")
        parts.append(
            f'<text x="{2 * LEFT - 8}" y="{y + 14}" text-anchor="end">{label}'
            f"<title>at {segment['address']:#x}, stream {segment.get('stream', 0)}"
            "</title></text>"
        )
        # A small segment is drawn wider, for its blocks to be seen.
        wide = max(scale * segment["total_size"], 60) / segment["total_size"]
        for group in _groups(segment):
            x = 2 * LEFT + (group[0]["address"] - segment["address"]) * wide
            width = sum(block["size"] for block in group) * wide
            _, colour = STATES.get(group[0]["state"], PENDING)
            parts.append(
                f'<rect x="{x:.2f}" y="{y + 2}" width="{width:.2f}" height="16" '
                f'fill="{colour}" stroke="#fff" stroke-width="0.3">'
                f"<title>{html.escape(_block_title(group))}</title></rect>"
            )
    drawn = (
        f'<svg viewBox="0 0 {WIDTH} {20 * len(shown)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
    if left_out:
        total = size(sum(segment["total_size"] for segment in left_out))
        drawn += f"<p>and {len(left_out)} smaller segments, {total} in all</p>"
    return drawn


# --- the page ---------------------------------------------------------------------


def _key(colour: str, name: str) -> str:
    key = f'<span class="key" style="background: {colour}"></span>'
    return key + html.escape(name)


def _sites(history: History, places: Sequence[str]) -> str:
    colours = dict(zip(places, COLOURS, strict=False))
    rows = "".join(
        f"<tr><td>{size(site.now)}</td><td>{size(site.peak)}</td>"
        f"<td>{size(history.at_peak.get(site.place, 0))}</td>"
        f"<td>{site.allocations}</td>"
        f"<td>{_key(colours.get(site.place, OTHER), site.place)}</td></tr>"
        for site in history.top(30)
    )
    return (
        "<table><tr><th>now</th><th>peak</th><th>at the device's peak</th>"
        f"<th>allocations</th><th>call site</th></tr>{rows}</table>"
    )


def page(snapshot: dict[str, Any], title: str = "Memory snapshot") -> str:
    """The page for a snapshot that :func:`load` gave."""
    body, data = [], []
    for index in devices(snapshot):
        history = History(snapshot, index)
        places = [site.place for site in history.top(SITES)]
        body.append(
            f"<h2>Device {index}</h2><p>{size(history.now)} requested by tensors, "
            f"{size(history.peak)} at the peak, {size(history.reserved)} reserved.</p>"
        )
        if history.trace:
            steps = _thin(history.steps(places), len(history.trace))
            body += [
                "<h3>Timeline</h3><p>Bytes that tensors requested, by call site, "
                "change after change; dashed: reserved.</p>",
                _timeline(history, steps, places),
                f'<div class="told" id="told-{index}">Point at the timeline.</div>',
            ]
            start = steps[0].time
            rows = [
                [s.time - start, s.allocated, s.reserved, *s.sites.values()]
                for s in steps
            ]
            data.append({"index": index, "sites": places, "steps": rows})
        else:
            body.append(
                "<p>The snapshot has no history: call <code>"
                "_record_memory_history()</code> first to see a timeline.</p>"
            )
        states = " &nbsp; ".join(
            _key(colour, name) for name, colour in [*STATES.values(), PENDING]
        )
        body += ["<h3>Call sites</h3>", _sites(history, places)]
        body += [f"<h3>Segments</h3><p>{states}</p>", _segments(history)]
    if not body:
        body.append("<p>No device holds memory or has a history.</p>")
    embedded = {"width": WIDTH, "left": LEFT, "devices": data}
    return PAGE.format(
        title=html.escape(title),
        body="\n".join(body),
        # A place could hold the end of a script.
        data=json.dumps(embedded, separators=(",", ":")).replace("<", "\\u003c"),
        script=SCRIPT,
    )
