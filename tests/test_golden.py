"""What a GPU was seen to do is what openreg does, but for a table of exceptions.

`tests/golden` has the cases and the record of the GPU, `docs/differences.md` the
exceptions with their reasons.
"""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parent.parent / "docs" / "differences.md"
RECORDED = json.loads((GOLDEN / "golden.json").read_text())["cases"]


@functools.cache
def observed():
    result = subprocess.run(
        [sys.executable, GOLDEN / "observer.py"],
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@functools.cache
def differences():
    """(case, label) of each row of the page; the label is None for a whole case."""
    row = re.compile(r"^\| `(\w+/[\w.]+)(?:: ([^`]+))?` +\|", re.MULTILINE)
    rows = row.findall(PAGE.read_text())
    assert len(rows) == len(set(rows)), "a row is there twice"
    return {(case, label or None) for case, label in rows}


def differing(case):
    """The labels of a case under which openreg and the GPU disagree."""
    return {
        label
        for label, outcome in RECORDED[case].items()
        if observed()[case].get(label, "absent") != outcome
    }


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_openreg_does_what_the_gpu_did(case):
    if (case, None) in differences():
        return
    allowed = {label for name, label in differences() if name == case}
    found = observed()[case]
    unexpected = {
        label: {"gpu": RECORDED[case][label], "openreg": found.get(label, "absent")}
        for label in sorted(differing(case) - allowed)
    }
    assert unexpected == {}, found


def test_every_difference_on_the_page_is_one():
    needless = {
        (case, label)
        for case, label in differences()
        if case not in RECORDED
        or not (differing(case) if label is None else label in differing(case))
    }
    assert needless == set()


def test_every_case_has_a_record():
    assert set(observed()) == set(RECORDED)
