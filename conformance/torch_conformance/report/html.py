"""A page of its own for a run: no script, nothing from elsewhere."""

from html import escape

from ..levels import LEVELS, find
from ..outcome import grouped

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid #ccc; padding: .25rem .5rem; text-align: left;
         vertical-align: top; }
pre { white-space: pre-wrap; margin: .3rem 0; }
.passed, .expected { color: #276b27; } .absent { color: #777; }
.failed, .crashed, .hung, .unexpected { color: #b00020; }
"""


def worst(results):
    """The status that stands for all cases of a check."""
    order = ("crashed", "hung", "failed", "unexpected", "expected", "passed", "absent")
    return min((result.status for result in results), key=order.index)


def check_row(name, results, guide):
    """A row of the table of a level; what failed opens to say what to write."""
    check, status = find(name), worst(results)
    count = ""
    if len(results) > 1:
        good = sum(result.good is not False for result in results)
        count = f" {good} of {len(results)}"
    details = ""
    shown = [r for r in results if r.message and r.status != "absent"]
    if shown:
        texts = "".join(
            f"<pre>{escape(f'{r.id.removeprefix(name)} {r.message}'.strip())}</pre>"
            for r in shown
        )
        details = (
            f"<details open><summary>what to write</summary>{texts}"
            f"<p>call: <code>{escape(check.call)}</code></p><p>{escape(check.write)}"
            f"</p></details>"
        )
    link = f'<a href="{escape(guide)}/{escape(check.page)}">{escape(name)}</a>'
    return (
        f"<tr><td>{link}</td><td>{escape(check.proves)}{details}</td>"
        f'<td class="{status}">{status}{count}</td></tr>'
    )


def level_part(run, level, guide):
    """The heading and the table of one level."""
    results = run.of_level(level.number)
    if not results:
        return ""
    words = {True: "reached", False: "not reached", None: "declared absent"}
    state = words[run.state_of(level.number)]
    rows = "".join(
        check_row(name, cases, guide) for name, cases in grouped(results).items()
    )
    title = escape(f"Level {level.number}: {level.title}")
    return f"<h2>{title}: {state}</h2><table>{rows}</table>"


def page(run, guide):
    """The text of the page."""
    title = escape(f"{run.device}: level {run.level}")
    about = escape(", ".join(f"{key} {value}" for key, value in run.about.items()))
    absent = ""
    if run.absent:
        absent = f"<p>Declared absent: {escape(', '.join(run.absent))}.</p>"
    parts = "".join(level_part(run, level, guide) for level in LEVELS)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1><p>{about}</p>{absent}{parts}</html>\n"
    )
