"""Runs a program with the sanitizer.

    python -m torch_openreg.sanitize [OPTIONS] program.py [ARGUMENTS...]
    python -m torch_openreg.sanitize [OPTIONS] -m module [ARGUMENTS...]
    python -m torch_openreg.sanitize [OPTIONS] -c code [ARGUMENTS...]

A Python with OPENREG_SANITIZE in its environment takes the place of this one; processes
that the program starts, ranks for instance, inherit it. The exit code is 86 if something
was found, else that of the program.
"""

import argparse
import os
import subprocess
import sys

VALUES = {
    "--checks": (
        "OPENREG_SANITIZE",
        "out of race, memory, init, leak, or all; the first three by default",
    ),
    "--report": ("OPENREG_SANITIZE_REPORT", "file to write the findings to, as JSON"),
    "--suppressions": (
        "OPENREG_SANITIZE_SUPPRESSIONS",
        "file that names findings to leave out",
    ),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m torch_openreg.sanitize",
        description="Runs a program with the sanitizer.",
        usage="%(prog)s [OPTIONS] (program.py | -m module | -c code) [ARGUMENTS...]",
        epilog="The exit code is 86 if something was found.",
        allow_abbrev=False,
    )
    for name, (_, text) in VALUES.items():
        parser.add_argument(name, help=text)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    end = 0
    while end < len(arguments) and arguments[end].startswith(("--", "-h")):
        end += 2 if arguments[end] in VALUES else 1
    options = parser.parse_args(arguments[:end])
    program = arguments[end:]
    if not program or program in (["-m"], ["-c"]):
        parser.error("which program? Give a file, -m and a module, or -c and code")
    os.environ["OPENREG_SANITIZE"] = options.checks or "race,memory,init"
    for name, (variable, _) in VALUES.items():
        if value := getattr(options, name.removeprefix("--")):
            os.environ[variable] = value
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execv(sys.executable, [sys.executable, *flags, *program])


if __name__ == "__main__":
    main(sys.argv[1:])
