"""Processes with another backend than openreg, and sessions of the pages about it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SESSION = """
import doctest

def failures(text):
    parser, report = doctest.DocTestParser(), []
    test = parser.get_doctest(text, {}, "page", None, 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    return "".join(report)
"""

# Prints what each line of the arguments gives, or which error it raises.
ANSWERS = """
import importlib, json, sys, torch

def told(line):
    try:
        return str(eval(line, globals()))
    except Exception as error:
        return f"{type(error).__name__} {error}"

importlib.import_module(sys.argv[1])
print(json.dumps([told(line) for line in sys.argv[2:]]))
"""


def environment(folder, **variables):
    """One backend per process, and it is the one in `folder`."""
    binaries = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    places = {"PATH": binaries, "PYTHONPATH": str(folder)}
    return {**os.environ, **off, **places, **variables}


def run_in(folder, *arguments, check=True, **variables):
    result = subprocess.run(
        [*map(str, arguments)],
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=500,
    )
    if check:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


def session_failures(folder, text):
    program = f"{SESSION}\nprint(failures({text!r}), end='')"
    return run_in(folder, sys.executable, "-c", program).stdout


def sessions(page):
    """The `pycon` blocks of a page, as one text."""
    return "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page, re.M | re.S))


def answers(folder, module, lines):
    """Line of Python -> what it gives where `module` is imported."""
    found = run_in(folder, sys.executable, "-c", ANSWERS, module, *lines).stdout
    return dict(zip(lines, json.loads(found), strict=True))
