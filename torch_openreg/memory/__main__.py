"""The commands of torch_openreg.memory."""

import argparse
import os
import runpy
import sys
from pathlib import Path

import torch

from torch_openreg._device_name import NAME

from . import __doc__ as usage
from ._estimate import estimate
from ._page import page
from ._snapshot import History, NotASnapshot, devices, load
from ._text import size, table

PROG = "python -m torch_openreg.memory"


def fail(message: object) -> int:
    print(f"{PROG}: {message}", file=sys.stderr)
    return 2


# --- report -----------------------------------------------------------------------


def report(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"{PROG} report",
        description="Draws a memory snapshot and prints its top call sites.",
    )
    add = parser.add_argument
    add("snapshot", help="file of _dump_snapshot(), of torch.openreg or torch.cuda")
    add("-o", "--output", help="page to write; by default beside the snapshot")
    add("--top", type=int, default=10, help="call sites to print, %(default)s")
    options = parser.parse_args(arguments)
    output = options.output or Path(options.snapshot).with_suffix(".html")
    try:
        snapshot = load(options.snapshot)
        written = page(snapshot, f"Memory: {os.path.basename(options.snapshot)}")
        Path(output).write_text(written, encoding="utf-8")
    except (NotASnapshot, OSError) as error:
        return fail(error)
    for index in devices(snapshot):
        history = History(snapshot, index)
        table(
            f"device {index}: {size(history.now)} requested by tensors, "
            f"{size(history.peak)} at the peak, {size(history.reserved)} reserved",
            ("now", "peak", "allocations", "call site"),
            (
                (size(s.now), size(s.peak), str(s.allocations), s.place)
                for s in history.top(options.top)
            ),
            right=3,
        )
    print(f"wrote {output}")
    return 0


# --- estimate ---------------------------------------------------------------------

VARIABLES = {
    "memory": ("OPENREG_DEVICE_MEMORY", "capacity of a device, such as 24GiB"),
    "profile": ("OPENREG_DEVICE_PROFILE", "device to pose as, such as l4 or h100"),
    "devices": ("OPENREG_DEVICE_COUNT", "number of devices"),
}


def estimate_script(arguments: list[str]) -> object:
    parser = argparse.ArgumentParser(
        prog=f"{PROG} estimate",
        usage="%(prog)s [options] script.py [args] [options] [-- more args]",
        description="Runs a script on openreg and tells what memory it takes.",
        epilog="Arguments that this command does not know are passed to the script, and "
        "so is everything after `--`.",
        allow_abbrev=False,
    )
    for name, (_, help) in VARIABLES.items():
        parser.add_argument(f"--{name}", help=help)
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options, rest = parser.parse_known_args(arguments[:cut])
    command = rest + arguments[cut + 1 :]
    if not command or command[0].startswith("-"):
        parser.error("there must be a script to run")
    script = command[0]
    if not os.path.isfile(script):
        return fail(f"there is no script {script}")

    # libopenreg reads them when a device is first used.
    for name, (variable, _) in VARIABLES.items():
        if (value := getattr(options, name)) is not None:
            os.environ[variable] = value
    try:
        torch.get_device_module(NAME).init()
    except RuntimeError as error:
        return fail(error)

    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    status: object = 0
    process = os.getpid()
    figures = estimate()
    try:
        with figures:
            runpy.run_path(script, run_name="__main__")
    except torch.OutOfMemoryError:
        status = 1
    except SystemExit as ended:
        status = ended.code
        if os.getpid() != process:
            raise  # a child of the script
        failed = sum(len(device.failures) for device in figures.devices)
        if status and failed:
            figures.error = f"{failed} failed allocations, and exit with {status!r}"
    sys.stdout.flush()
    print()
    figures.show()
    return status


# --- the command ------------------------------------------------------------------

COMMANDS = {"report": report, "estimate": estimate_script}


def main(arguments: list[str]) -> object:
    """Runs a command; returns the exit status."""
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    if arguments and arguments[0] not in ("-h", "--help"):
        return fail(f"no command {arguments[0]}; there are {', '.join(COMMANDS)}")
    print(usage)
    return 0 if arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
