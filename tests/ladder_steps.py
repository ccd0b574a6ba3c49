"""The steps of docs/ladder.md as packages: written by torch_openreg.new, and built."""

import re
import sys
import tempfile
from pathlib import Path

from other_backends import ROOT, run_in

PAGE = ROOT / "docs" / "ladder.md"
BUILD = ROOT / "build" / "ladder"


def steps():
    """Number of a step -> the arguments of the command, as the page says."""
    row = re.compile(r"^\| (\d) \|.*\| `(mini.*?)` +\|$", re.M)
    return {
        int(n): [*arguments.split(), "--devices", "2"]
        for n, arguments in row.findall(PAGE.read_text())
    }


def levels():
    """Number of a step -> the levels that it reaches, as the page says."""
    row = re.compile(r"^\| (\d) \| .*? \| ([\d–, ]+) \|", re.M)
    ends = {
        int(n): [part.split("–") for part in text.split(", ")]
        for n, text in row.findall(PAGE.read_text())
    }
    return {
        n: [i for part in parts for i in range(int(part[0]), int(part[-1]) + 1)]
        for n, parts in ends.items()
    }


def packages():
    """Name -> module and arguments of the command: the steps, and what a user gets who
    asks for nothing."""
    found = {f"step {n}": ("torch_mini", a) for n, a in steps().items()}
    return {**found, "mychip": ("torch_mychip", ["mychip"])}


def render(arguments, folder):
    """Writes a package; gives file -> text."""
    from torch_openreg.new.__main__ import main

    main([*arguments, "--to", str(folder)])
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".copier-answers.yml"
    }


def build(name, arguments):
    """Builds a package in a folder of build/ladder; a second time only what has changed
    is compiled."""
    folder = BUILD / str(name)
    with tempfile.TemporaryDirectory() as new:
        files = render(arguments, Path(new) / "package")
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in (folder / "csrc").rglob("*.*"):
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()  # of an earlier version
    made = run_in(folder, sys.executable, "setup.py", "-q", "build_ext", "-i")
    assert "warning:" not in made.stdout + made.stderr, made.stdout
    return folder
