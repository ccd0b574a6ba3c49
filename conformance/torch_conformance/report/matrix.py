"""A page that sets several backends side by side: `python -m torch_conformance matrix
old.json new.json` prints it, each file the --json of a run."""

import argparse
import sys
from pathlib import Path

from ..levels import LEVELS, checks_of
from ..outcome import Run, grouped

INTRODUCTION = """# Conformance

This page shows what each backend answers to each check of [the conformance kit](conformance_kit.md). {command}

"✓" stands for a check that passes, "✗" for one that does not, "–" for a part that is declared absent. A check that runs
once per operator of a sample also shows how many passed. A level is reached when all its checks pass; the level of a backend is
the highest that is reached with all below it.
"""


def cell(results):
    """What a table says of the results of one check."""
    goods = [result.good for result in results if result.good is not None]
    if not goods:
        return "–" if results else ""
    mark = "✓" if all(goods) else "✗"
    return mark if len(goods) == 1 else f"{mark} {sum(goods)} of {len(goods)}"


def row(*cells):
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def head(*cells):
    """The first two lines of a table."""
    return [row(*cells), row(*("---" for _ in cells))]


def summary(runs):
    """The levels of each backend."""
    names = {True: "reached", False: "", None: "–"}
    lines = head("level", "", *(name for name, _ in runs))
    for level in LEVELS:
        states = [names[run.state_of(level.number)] for _, run in runs]
        lines.append(row(str(level.number), level.title, *states))
    lines.append(row("", "**level**", *(f"**{run.level}**" for _, run in runs)))
    return lines


def page(runs, command=""):
    """The text of the page, for pairs of a name and a run."""
    lines = [INTRODUCTION.format(command=command), *summary(runs)]
    for level in LEVELS:
        lines += [
            "",
            f"## {level.number}. {level.title[0].upper()}{level.title[1:]}",
            "",
        ]
        lines += head("check", "what it proves", *(name for name, _ in runs))
        found = [grouped(run.of_level(level.number)) for _, run in runs]
        for group in level.groups:
            for check in checks_of(group):
                cells = [cell(results.get(check.id, [])) for results in found]
                text = check.proves.replace("|", "\\|")
                lines.append(row(f"[{check.id}]({check.page})", text, *cells))
    return "\n".join([*lines, ""])


def parser():
    """The options of the command."""
    options = argparse.ArgumentParser(
        prog="python -m torch_conformance matrix",
        description="Prints a page, in Markdown, that sets runs side by side: those of"
        " several backends, or of one backend over time.",
        epilog="The files are what `python -m torch_conformance --json` writes; a column"
        " is named after its file.",
    )
    options.add_argument("files", nargs="+", metavar="results.json", help="a run")
    return options


def main(arguments):
    """Prints the page of the runs in some files, named after the files."""
    runs = []
    for name in parser().parse_args(arguments).files:
        try:
            runs.append((Path(name).stem, Run.unpacked(Path(name).read_text())))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"torch_conformance: cannot read {name}: {error!r}", file=sys.stderr)
            return 2
    print(page(runs), end="")
    return 0
