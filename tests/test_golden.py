"""What a GPU was seen to do is what the device does, but for tables of exceptions.

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


NAMES = [pytest.param("openreg"), pytest.param("cuda", marks=pytest.mark.slow)]


def observed_by(script, *cases, **variables):
    result = subprocess.run(
        [sys.executable, GOLDEN / script, *cases],
        env={**os.environ, "OPENREG_QUIET": "1", **variables},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@functools.cache
def observed(name):
    """All cases, on the device under that name."""
    observe = functools.partial(observed_by, OPENREG_AS=name)
    with ThreadPoolExecutor(3) as pool:
        parts = [
            pool.submit(observe, "observer.py"),
            pool.submit(observe, "memory.py"),
            pool.submit(observe, "memory.py", OPENREG_DEVICE_PROFILE="h200"),
        ]
        return {case: found for part in parts for case, found in part.result().items()}


ONLY = {"openreg": "Under the name openreg only", "cuda": "In CUDA's place only"}


@functools.cache
def differences(name):
    """(case, pattern of labels) of each row of the page that is about this name; "*"
    for a whole case."""
    sections = re.split("^## ", PAGE.read_text(), flags=re.MULTILINE)
    others = {title for other, title in ONLY.items() if other != name}
    assert all(any(s.startswith(title) for s in sections) for title in ONLY.values())
    page = "\n".join(s for s in sections if not s.startswith(tuple(others)))
    row = re.compile(r"^\| `(\w+/[\w.]+)(?:: ([^`]+))?` +\|", re.MULTILINE)
    rows = row.findall(page)
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


def differing(case, found):
    """The labels of a case under which the device and the GPU disagree."""

    def agree(label, recorded, found):
        if case.startswith("models/"):
            return near(label, recorded, found)
        if case.startswith("models_with_workspace/"):
            return near(label, recorded, found, 0.05)
        return same(recorded, found)

    return {
        label
        for label, outcome in RECORDED[case].items()
        if not agree(label, outcome, found.get(label, "absent"))
    }


def side_by_side(label, recorded, found):
    """What differs, for a reader: of the allocator's figures, those that do."""
    if label.endswith(" figures") and isinstance(found, list):
        both = zip(FIGURES, recorded, found, strict=True)
        return {name: {"gpu": a, "openreg": b} for name, a, b in both if a != b}
    return {"gpu": recorded, "openreg": found}


def check(name, case, found):
    patterns = [pattern for other, pattern in differences(name) if other == case]
    allowed = set().union(*(labels(case, pattern) for pattern in patterns))
    unexpected = {
        label: side_by_side(label, RECORDED[case][label], found.get(label, "absent"))
        for label in sorted(differing(case, found) - allowed)
    }
    assert unexpected == {}


@pytest.mark.parametrize("case", sorted(RECORDED))
@pytest.mark.parametrize("name", NAMES)
def test_the_device_does_what_the_gpu_did(name, case):
    check(name, case, observed(name)[case])


def test_some_cases_are_as_on_the_gpu_in_cudas_place():
    found = observed_by("observer.py", "api/*", OPENREG_AS="cuda")
    assert len(found) > 10
    for case, outcome in found.items():
        check("cuda", case, outcome)


@pytest.mark.in_threads("there, two differences of the page are none")
@pytest.mark.parametrize("name", NAMES)
def test_every_difference_on_the_page_is_one(name):
    needless = set()
    for case, pattern in differences(name):
        meant = labels(case, pattern)
        found = meant & differing(case, observed(name)[case])
        # A whole case differs if a part of it does.
        if not found or (pattern != "*" and found != meant):
            needless.add((case, pattern))
    assert needless == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_a_record(name):
    assert set(observed(name)) == set(RECORDED)
    unknown = {
        (case, label)
        for case, outcome in observed(name).items()
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
def test_outcomes_may_differ_in_numbers_and_unrecorded_words(recorded, found):
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
