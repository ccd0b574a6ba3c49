"""A badge for a README: the level that is reached."""

from html import escape

from ..levels import NUMBERS

CHARACTER = 6.6  # width in pixels of the font at size 11, roughly
TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" \
role="img" aria-label="{label}: {text}">
  <title>{label}: {text}</title>
  <rect width="{left}" height="20" fill="#555"/>
  <rect x="{left}" width="{right}" height="20" fill="{color}"/>
  <g fill="#fff" text-anchor="middle" font-family="Verdana,sans-serif" font-size="11">
    <text x="{label_at}" y="14">{label}</text>
    <text x="{text_at}" y="14">{text}</text>
  </g>
</svg>
"""


def image(run, guide=""):
    """The text of an SVG file."""
    label = f"torch conformance: {run.device}"
    text = f"level {run.level} of {NUMBERS[-1]}"
    if run.absent:
        text += f", without {', '.join(run.absent)}"
    left, right = (round(len(part) * CHARACTER) + 12 for part in (label, text))
    share = run.level / NUMBERS[-1]
    return TEMPLATE.format(
        label=escape(label),
        text=escape(text),
        left=left,
        right=right,
        width=left + right,
        label_at=left / 2,
        text_at=left + right / 2,
        color="#3a3" if share == 1 else "#a73" if share < 0.4 else "#883",
    )
