"""What the command shows: progress, a table of the levels, and what to write next."""

import contextlib

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ..check import base_id
from ..levels import LEVELS, find
from ..outcome import grouped

MOST_CASES = 8  # that a line names


@contextlib.contextmanager
def progress(device, total):
    """A bar; gives the function that is told of each result."""
    console = Console(stderr=True)
    columns = (
        TextColumn(f"[bold]{device}[/]"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def tell(result):
            bar.update(task, advance=1, description=escape(result.id))

        yield tell


def state_words(state, results):
    """What the table says of a level."""
    if not results:
        return "[dim]not run[/]"
    words = {True: "[green]reached[/]", False: "[red]not reached[/]"}
    return words.get(state, "[dim]declared absent[/]")


def level_table(run):
    """A row for each level."""
    table = Table("level", "", "passed", "failed", "absent", "")
    for level in LEVELS:
        results = run.of_level(level.number)
        goods = [result.good for result in results]
        table.add_row(
            str(level.number),
            level.title,
            *(str(goods.count(kind) or "") for kind in (True, False, None)),
            state_words(run.state_of(level.number), results),
        )
    return table


def show_failures(console, bad, guide):
    """Each failed check with what it proves and what to write."""
    for name, results in grouped(bad).items():
        check = find(name)
        console.print(
            f"\n[red]{escape(name)}[/] {escape(check.proves)}", highlight=False
        )
        for result in results[:MOST_CASES]:
            case = result.id.removeprefix(name)
            text = escape(f"{case} {result.status}: {result.message}".strip())
            console.print(f"  {text}", highlight=False)
        if len(results) > MOST_CASES:
            console.print(f"  … and {len(results) - MOST_CASES} more")
        console.print(f"  call:  {escape(check.call)}", highlight=False)
        console.print(f"  write: {escape(check.write)}", highlight=False)
        console.print(f"  guide: {guide}/{check.page}", highlight=False)


def show(run, guide, whole=True):
    """The table, the failures, and a sentence that says what to do next."""
    console = Console()
    if whole:
        console.print(level_table(run))
    show_failures(console, run.bad, guide)
    goods = [result.good for result in run.results if result.good is not None]
    hold = f"{sum(goods)} of {len(goods)} checks hold"
    console.print(
        f"\n{run.device}: level {run.level}, {hold},"
        f" {sum(result.seconds for result in run.results):.0f} s."
        if whole
        else f"\n{hold}."
    )
    if run.bad:
        first = base_id(run.bad[0].id)
        page = f"{guide}/{find(first).page}"
        console.print(f"Next: {first}, see {page}", highlight=False)
    elif whole:
        console.print("Next: keep the results with --json and --compare later runs.")


def show_comparison(comparison, path):
    """What has changed since an earlier run."""
    lines = comparison.lines() or ["no check answers otherwise"]
    print("\n".join([f"since {path}:", *(f"  {line}" for line in lines)]))
