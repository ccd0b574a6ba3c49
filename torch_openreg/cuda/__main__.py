"""Runs a program written for CUDA on the device.

    python -m torch_openreg.cuda [OPTIONS] program.py [ARGUMENTS...]
    python -m torch_openreg.cuda [OPTIONS] -m module [ARGUMENTS...]
    python -m torch_openreg.cuda [OPTIONS] -c code [ARGUMENTS...]

A Python with OPENREG_AS=cuda takes the place of this one and runs the program;
processes that the program starts, torchrun's ranks for instance, inherit the variable.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_openreg.cuda",
        description="Runs a program written for CUDA on a device made of software.",
        usage="%(prog)s [OPTIONS] (program.py | -m module | -c code) [ARGUMENTS...]",
        epilog="Then run it where a GPU is: nothing in it has to change.",
    )
    parser.add_argument(
        "--devices", type=int, help="the number of devices; 2 by default"
    )
    parser.add_argument("--profile", help="the GPU to pose as, such as h100 or a100")
    parser.add_argument("--memory", help="capacity of each device, such as 24GiB")
    parser.add_argument("--quiet", action="store_true", help="say nothing on stderr")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our options, and the program with its own."""
    end = 0
    while end < len(arguments) and arguments[end].startswith(("--", "-h")):
        alone = "=" in arguments[end] or arguments[end] in ("--quiet", "--help", "-h")
        end += 1 if alone else 2
    return arguments[:end], arguments[end:]


def _check_hook(parser: argparse.ArgumentParser) -> None:
    """A file next to the packages makes every Python load this package when it starts."""
    name = "torch_openreg.pth"
    if not any((Path(folder) / name).exists() for folder in sys.path):
        parser.error(
            f"{name} is in no folder of sys.path, so no Python would know of "
            "OPENREG_AS: install the package with pip"
        )


def main(arguments: list[str]) -> None:
    parser = _options()
    ours, program = _split(arguments)
    options = parser.parse_args(ours)
    if not program or program in (["-m"], ["-c"]):
        parser.error("which program? Give a file, -m and a module, or -c and code")
    _check_hook(parser)
    variables = {
        "OPENREG_DEVICE_COUNT": options.devices,
        "OPENREG_DEVICE_PROFILE": options.profile,
        "OPENREG_DEVICE_MEMORY": options.memory,
        "OPENREG_QUIET": 1 if options.quiet else None,
    }
    given = {name: str(value) for name, value in variables.items() if value is not None}
    os.environ.update(given, OPENREG_AS="cuda")
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execv(sys.executable, [sys.executable, *flags, *program])


if __name__ == "__main__":
    main(sys.argv[1:])
