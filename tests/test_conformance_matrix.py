"""docs/conformance.md, which `make conformance` writes, is that of today's checks."""

import re
from pathlib import Path

import ladder_steps
import pytest
import torch  # noqa: F401 (with its backends; the kit imports it without them)
from torch_conformance.__main__ import main
from torch_conformance.levels import NUMBERS, checks
from torch_conformance.outcome import Result, Run
from torch_conformance.report.matrix import page

DOCS = Path(__file__).resolve().parent.parent / "docs"


def rows(text):
    """Id -> what it proves, of each check on the page."""
    return dict(re.findall(r"^\| \[([\w.]+)\]\([^)]*\) \| (.*?) \|", text, re.M))


def levels(text):
    """Backend -> its level, by the table at the top."""
    (names,) = re.findall(r"^\| level \|  \| (.*) \|$", text, re.M)
    (found,) = re.findall(r"^\|  \| \*\*level\*\* \| (.*) \|$", text, re.M)
    numbers = [int(cell.strip("*")) for cell in found.split(" | ")]
    return dict(zip(names.split(" | "), numbers, strict=True))


def test_the_page_has_every_check():
    current = {check.id: check.proves for check in checks()}
    assert rows((DOCS / "conformance.md").read_text()) == current, "make conformance"


def test_the_page_has_the_level_of_each_backend():
    found = levels((DOCS / "conformance.md").read_text())
    first = re.findall(r"level (\d+) of \[", (DOCS / "first_backend.md").read_text())
    assert found["openreg"] == NUMBERS[-1]
    assert [found["step 1"]] == [int(level) for level in first]


def test_the_page_has_each_step_of_the_ladder_with_the_levels_it_says():
    found = reached((DOCS / "conformance.md").read_text())
    said = {f"step {step}": levels for step, levels in ladder_steps.levels().items()}
    assert len(said) == 6
    assert {name: found[name] for name in said} == said, "make conformance"
    assert found["mychip"] == said["step 6"]  # all options, as a new user gets it
    assert set(found) == {"openreg", *said, "mychip", "pychip"}


def reached(text):
    """Backend -> the levels that it reaches, by the same table."""
    table = text.partition("\n## ")[0]
    (names,) = re.findall(r"^\| level \|  \| (.*) \|$", table, re.M)
    rows = re.findall(r"^\| (\d+) \| [^|]* \|(.*)\|$", table, re.M)
    found = {name: [] for name in names.split(" | ")}
    for number, cells in rows:
        for name, cell in zip(found, cells.split("|"), strict=True):
            found[name] += [int(number)] if cell.strip() == "reached" else []
    return found


@pytest.fixture
def runs():
    good = Run("a", [Result(check.id, "passed") for check in checks(2)])
    bad = Run("b", [Result(check.id, "absent") for check in checks(1)])
    bad.results += [Result("guard.synchronizes", "hung")]
    bad.results += [Result(f"operators.values[{n}]", "passed") for n in ("x", "y")]
    return {"a": good, "b": bad}


def test_backends_stand_side_by_side(runs):
    text = page([*runs.items()])
    assert levels(text) == {"a": 2, "b": 0}
    (line,) = [one for one in text.splitlines() if "[guard.synchronizes]" in one]
    assert line.endswith("| ✓ | ✗ |")
    (line,) = [one for one in text.splitlines() if "[naming.has_a_name]" in one]
    assert line.endswith("| ✓ | – |")
    (line,) = [one for one in text.splitlines() if "[operators.values]" in one]
    assert line.endswith("|  | ✓ 2 of 2 |")


def test_the_command_prints_a_page_of_files(runs, tmp_path, capsys):
    files = []
    for name, run in runs.items():
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(run.packed())
    assert main(["matrix", *map(str, files)]) == 0
    assert levels(capsys.readouterr().out) == {"a": 2, "b": 0}
    assert main(["matrix", str(tmp_path / "no.json")]) == 2
    assert "cannot read" in capsys.readouterr().err
