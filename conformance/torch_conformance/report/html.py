"""A page of its own for a run: no script, nothing from elsewhere."""

import re
from html import escape

from ..levels import LEVELS, find
from ..outcome import grouped

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
.checks td:first-child { width: 30%; overflow-wrap: anywhere;
                        font-size: .9em; }
.checks td:last-child { width: 7rem; }
td, th { border-bottom: 1px solid #ccc; padding: .25rem .5rem; text-align: left;
         vertical-align: top; }
pre { white-space: pre-wrap; margin: .3rem 0; }
.passed, .expected, .reached { color: light-dark(#276b27, #7dc97d); }
.absent { color: light-dark(#666, #aaa); }
.failed, .crashed, .hung, .unexpected { color: light-dark(#b00020, #ff8a8a); }
"""


def worst(results):
    """The status that stands for all cases of a check."""
    order = ("crashed", "hung", "failed", "unexpected", "expected", "passed", "absent")
    return min((result.status for result in results), key=order.index)


def words(text):
    """A sentence, with what stands in backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


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
            f"<p>call: <code>{escape(check.call)}</code></p><p>{words(check.write)}"
            f"</p></details>"
        )
    link = f'<a href="{escape(guide)}/{escape(check.page)}">{escape(name)}</a>'
    return (
        f"<tr><td>{link}</td><td>{words(check.proves)}{details}</td>"
        f'<td class="{status}">{status}{count}</td></tr>'
    )


STATES = {True: "reached", False: "not reached", None: "declared absent"}


def overview(run):
    """The table of the levels that were run, at the top."""
    rows = ""
    for level in LEVELS:
        goods = [result.good for result in run.of_level(level.number)]
        if goods:
            state = run.state_of(level.number)
            kind = {True: "reached", False: "failed", None: "absent"}[state]
            rows += (
                f'<tr><td><a href="#{level.number}">{level.number}. '
                f"{escape(level.title)}</a></td><td>{goods.count(True)}</td>"
                f"<td>{goods.count(False)}</td><td>{goods.count(None)}</td>"
                f'<td class="{kind}">{STATES[state]}</td></tr>'
            )
    names = ("level", "passed", "failed", "absent", "")
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<table><tr>{head}</tr>{rows}</table>"


def level_part(run, level, guide):
    """The heading and the table of one level."""
    results = run.of_level(level.number)
    if not results:
        return ""
    state = STATES[run.state_of(level.number)]
    rows = "".join(
        check_row(name, cases, guide) for name, cases in grouped(results).items()
    )
    title = escape(f"Level {level.number}: {level.title}")
    heading = f'<h2 id="{level.number}">{title}: {state}</h2>'
    return f'{heading}<table class="checks">{rows}</table>'


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
        f"<style>{STYLE}</style><h1>{title}</h1><p>{about}</p>{absent}"
        f"{overview(run)}{parts}</html>\n"
    )
