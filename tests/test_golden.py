"""What a GPU was seen to do is what openreg does, but for a table of exceptions.

`tests/golden` has the cases and the records of the GPU, `docs/differences.md` the
exceptions with their reasons.
"""

import difflib
import fnmatch
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parent.parent / "docs" / "differences.md"
RECORDED = {
    case: outcome
    for record in ("golden.json", "misuse.json")
    for case, outcome in json.loads((GOLDEN / record).read_text())["cases"].items()
}


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
    """(case, pattern of labels) of each row of the page; "*" for a whole case."""
    row = re.compile(r"^\| `(\w+/[\w.]+)(?:: ([^`]+))?` +\|", re.MULTILINE)
    rows = row.findall(PAGE.read_text())
    assert len(rows) == len(set(rows)), "a row is there twice"
    return {(case, pattern or "*") for case, pattern in rows}


def labels(case, pattern):
    return set(fnmatch.filter(RECORDED.get(case, {}), pattern))


def alike(recorded, found):
    """Whether two sentences say the same: releases of PyTorch word some otherwise,
    and numbers are the device's own."""
    texts = [re.sub(r"\d+(\.\d+)?", "0", text) for text in (recorded, found)]
    return difflib.SequenceMatcher(None, *texts, autojunk=False).ratio() >= 0.8


def same(recorded, found):
    if isinstance(recorded, dict) and isinstance(found, dict):
        return recorded.keys() == found.keys() and all(
            same(recorded[key], found[key]) for key in recorded
        )
    if isinstance(recorded, str) and recorded.startswith("raises "):
        kind, _, sentence = recorded.partition(": ")
        found_kind, _, found_sentence = str(found).partition(": ")
        # Some records have the kind alone.
        return kind == found_kind and (not sentence or alike(sentence, found_sentence))
    return recorded == found


@functools.cache
def differing(case):
    """The labels of a case under which openreg and the GPU disagree."""
    return {
        label
        for label, outcome in RECORDED[case].items()
        if not same(outcome, observed()[case].get(label, "absent"))
    }


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_openreg_does_what_the_gpu_did(case):
    patterns = [pattern for name, pattern in differences() if name == case]
    allowed = set().union(*(labels(case, pattern) for pattern in patterns))
    found = observed()[case]
    unexpected = {
        label: {"gpu": RECORDED[case][label], "openreg": found.get(label, "absent")}
        for label in sorted(differing(case) - allowed)
    }
    assert unexpected == {}


def test_every_difference_on_the_page_is_one():
    needless = {
        (case, pattern)
        for case, pattern in differences()
        if not labels(case, pattern)
        # A whole case differs if a part of it does.
        or not (labels(case, pattern) & differing(case))
        or (pattern != "*" and labels(case, pattern) - differing(case))
    }
    assert needless == set()


def test_every_case_has_a_record():
    assert set(observed()) == set(RECORDED)
    unknown = {
        (case, label)
        for case, outcome in observed().items()
        if case.startswith("misuse/")
        for label in outcome.keys() - RECORDED[case].keys()
    }
    assert unknown == set()


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ("raises ValueError", "raises ValueError: 3 is no device"),
        ("raises ValueError: 1 of 2", "raises ValueError: 3 of 40"),
        ({"a": [1], "b": "raises OSError"}, {"b": "raises OSError: no", "a": [1]}),
    ],
)
def test_outcomes_are_the_same_but_for_numbers_and_unrecorded_words(recorded, found):
    assert same(recorded, found)


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ("raises ValueError: bad index", "raises RuntimeError: bad index"),
        ("raises ValueError: bad index", "raises ValueError: out of memory"),
        ("raises ValueError: bad index", None),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1, 2], [2, 1]),
    ],
)
def test_outcomes_of_another_kind_or_sentence_differ(recorded, found):
    assert not same(recorded, found)
