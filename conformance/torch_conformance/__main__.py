"""`python -m torch_conformance --device mychip`: see --help."""

import argparse
import math
import signal
import sys
from pathlib import Path

from . import __version__
from .check import PARTS, base_id
from .levels import LEVELS, NUMBERS, checks, is_known
from .outcome import Run, compare
from .report import badge, html, junit, matrix, terminal
from .runner import run_checks, selected
from .settings import BadSettings, check_files, make

EPILOG = """
`python -m torch_conformance pytorch --tests PATH --device mychip` runs PyTorch's own
tests on the device, `python -m torch_conformance matrix a.json b.json` prints a page that
sets backends side by side. Exit status: 0 if all checks that count pass, 1 if not, 2 if
something is wrong with the command or the backend cannot be loaded.
"""


def parser():
    """The options of the command."""
    options = argparse.ArgumentParser(
        prog="python -m torch_conformance",
        description="What a PyTorch accelerator backend can do, and what it misses.",
        epilog=EPILOG,
    )
    add = options.add_argument
    add("--device", metavar="NAME", help="the device's name, as in torch.device(NAME)")
    add("--module", help="import this to load it; without, `import torch` does")
    add("--level", type=int, choices=NUMBERS, help="the highest level to run")
    add("--rtol", type=float, help="the least tolerance for floating point numbers")
    add("--config", metavar="vendor.toml", help="what the chip does not do")
    add("--only", metavar="CHECK_ID", action="append", default=[], help="run just this")
    add("--samples", type=int, default=4, help="inputs per operator (default: 4)")
    add("--every", type=int, default=1, metavar="N", help="each N-th operator (1: all)")
    add("--seconds", type=float, help="a check that takes longer hangs")
    add("--jobs", type=int, default=1, help="worker processes at a time (default: 1)")
    add("--report", metavar="out.html", type=Path, help="write a page")
    add("--junit", metavar="out.xml", type=Path, help="write JUnit's XML")
    add("--json", metavar="out.json", type=Path, help="write the results")
    add("--badge", metavar="out.svg", type=Path, help="write a badge")
    add("--compare", metavar="earlier.json", type=Path, help="say what has changed")
    add("--guide", default="docs", help="where the guide's pages are (default: docs)")
    add("--list", action="store_true", help="list the checks and run none")
    return options


def list_checks(highest):
    """Prints each check with what it proves, and the parts that may be absent."""
    for level in LEVELS:
        if highest is None or level.number <= highest:
            print(f"level {level.number}: {level.title}")
            for check in checks():
                if check.group in level.groups:
                    needs = f" ({', '.join(check.needs)})" if check.needs else ""
                    print(f"  {check.id}{needs}: {check.proves}")
    print("parts that may be absent:")
    for part, meaning in PARTS.items():
        print(f"  {part}: {meaning}")


def about():
    """What the results depend on besides the backend."""
    import datetime
    import platform

    import torch

    return {
        "kit": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def write_files(run, options):
    """The files that were asked for; returns their names."""
    writers = (
        (options.report, html.page),
        (options.junit, junit.document),
        (options.badge, badge.image),
    )
    for path, write in writers:
        if path:
            path.write_text(write(run, options.guide))
    if options.json:
        options.json.write_text(run.packed())


def run(options):
    """Runs the checks and returns the exit status."""
    for name in options.only:
        if not is_known(name):
            raise BadSettings(f"there is no check {name!r}; --list lists them")
    for name in ("samples", "every", "jobs", "seconds"):
        value = getattr(options, name)
        if value is not None and not 1 <= value < math.inf:
            raise BadSettings(f"--{name} {value} is not 1 or more")
    check_files(options.report, options.junit, options.json, options.badge)
    settings = make(
        options.device,
        options.module,
        options.config,
        options.rtol,
        samples=options.samples,
        seconds=options.seconds,
    )
    earlier = None
    if options.compare:
        try:
            earlier = Run.unpacked(options.compare.read_text())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadSettings(f"cannot read {options.compare}: {error!r}") from error
    ids = selected(settings, options.level, options.only, options.every)
    missing = {*map(base_id, options.only)} - {*map(base_id, ids)}
    if missing:
        raise BadSettings(
            f"{', '.join(missing)}: not of level {options.level} or below"
        )
    with terminal.progress(settings.device, len(ids)) as tell:
        results = run_checks(settings, ids, options.jobs, tell)
    found = Run(settings.device, results, about(), settings.absent)
    terminal.show(found, options.guide, whole=not options.only)
    if earlier:
        terminal.show_comparison(compare(found, earlier), options.compare)
    write_files(found, options)
    return 1 if found.bad else 0


def main(arguments=None):
    """The command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["pytorch"]:
        from .pytorch.__main__ import main as run_pytorch

        return run_pytorch(arguments[1:])
    if arguments[:1] == ["matrix"]:
        return matrix.main(arguments[1:])
    options = parser().parse_args(arguments)
    if options.list:
        list_checks(options.level)
        return 0
    try:
        return run(options)
    except BadSettings as error:
        print(f"torch_conformance: {error}", file=sys.stderr)
        return 2


def command():
    """The command in a process of its own, which ends its workers when it is ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return main()
    except KeyboardInterrupt:
        print("torch_conformance: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(command())
