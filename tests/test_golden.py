"""What a GPU was seen to do is what openreg does, but for a table of exceptions.

`tests/golden` has the cases and the records of the GPU, `docs/differences.md` the
exceptions with their reasons.
"""

import difflib
import fnmatch
import functools
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parent.parent / "docs" / "differences.md"
RECORDS = [
    json.loads((GOLDEN / name).read_text())
    for name in ("golden.json", "misuse.json", "graphs.json", "memory.json")
]
RECORDED = {
    case: outcome for record in RECORDS for case, outcome in record["cases"].items()
}
FIGURES = RECORDS[-1]["figures"]


def observed_by(script, **variables):
    result = subprocess.run(
        [sys.executable, GOLDEN / script],
        env={**os.environ, **variables},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@functools.cache
def observed():
    with ThreadPoolExecutor(3) as pool:
        parts = [
            pool.submit(observed_by, "observer.py"),
            pool.submit(observed_by, "memory.py"),
            pool.submit(observed_by, "memory.py", OPENREG_DEVICE_PROFILE="h200"),
        ]
        return {name: case for part in parts for name, case in part.result().items()}


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


def near(label, recorded, found, tolerance=None):
    """Whether a model takes as many bytes: temporaries inside operators differ."""
    tolerance = tolerance or (0.02 if label.endswith("reserved") else 0.01)
    return isinstance(found, int) and abs(found - recorded) <= tolerance * recorded


@functools.cache
def differing(case):
    """The labels of a case under which openreg and the GPU disagree."""

    def agree(label, recorded, found):
        if case.startswith("models/"):
            return near(label, recorded, found)
        if case.startswith("models_with_workspace/"):
            return near(label, recorded, found, 0.05)
        return same(recorded, found)

    return {
        label
        for label, outcome in RECORDED[case].items()
        if not agree(label, outcome, observed()[case].get(label, "absent"))
    }


def side_by_side(label, recorded, found):
    """What differs, for a reader: of the allocator's figures, those that do."""
    if label.endswith(" figures") and isinstance(found, list):
        both = zip(FIGURES, recorded, found, strict=True)
        return {name: {"gpu": a, "openreg": b} for name, a, b in both if a != b}
    return {"gpu": recorded, "openreg": found}


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_openreg_does_what_the_gpu_did(case):
    patterns = [pattern for name, pattern in differences() if name == case]
    allowed = set().union(*(labels(case, pattern) for pattern in patterns))
    found = observed()[case]
    unexpected = {
        label: side_by_side(label, RECORDED[case][label], found.get(label, "absent"))
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
        if case.startswith(("misuse/", "memory/"))
        for label in outcome.keys() - RECORDED[case].keys()
    }
    assert unknown == set()


@pytest.mark.parametrize(
    ("label", "recorded", "found", "is_near"),
    [
        ("after step", 1000, 1010, True),
        ("after step", 1000, 989, False),
        ("peak, reserved", 1000, 980, True),
        ("peak, reserved", 1000, 1021, False),
        ("deleted", 0, 1, False),
        ("after step", 1000, "absent", False),
    ],
)
def test_models_may_take_a_little_more_or_less(label, recorded, found, is_near):
    assert near(label, recorded, found) == is_near


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
