"""The model of a GPU's random numbers gives what was recorded, in every bit."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parent / "golden"
sys.path.insert(0, str(GOLDEN))
import philox_model as model  # noqa: E402

RECORD = json.loads((GOLDEN / "philox.json").read_text())["draws"]


def digest(values):
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def uniform(words):
    values = model.uniform(words)
    return np.where(values == 1, np.float32(0), values)


FILLS = {
    "rand float32": (1000003, uniform),
    "randn float32 1000": (1000, model.normal),
    "randn float32 1000003": (1000003, model.normal),
    "normal_ float32": (1000, lambda w: model.fused(model.normal(w), 1.7, 0.3)),
    "exponential_ float32 1000003": (1000003, lambda w: model.exponential(w, 1)),
    "exponential_ float32 1.7": (1000, lambda w: model.exponential(w, 1.7)),
    "log_normal_ float32": (1000, lambda w: model.log_normal(w, 1, 2)),
    "geometric_ float32": (100003, lambda w: model.geometric(w, 0.3)),
    "random_ int64 0 100": (1000, lambda w: model.integers(w, 0, 100)),
    "random_ int64 to100 big": (1000003, lambda w: model.integers(w, 0, 100)),
    "bernoulli_ int64": (1000003, lambda w: (model.uniform(w) <= np.float32(0.3)) * 1),
}


@pytest.mark.parametrize("name", FILLS)
def test_a_fill_is_the_recorded_one(name):
    count, make = FILLS[name]
    for seed in (0, 7):
        offset, wanted = RECORD.get(f"{name}|{seed}", (None, None))
        if wanted is not None:
            assert digest(model.fill(seed, count, make)) == wanted
            assert offset == 4 * -(-count // (4 * model.grid(count)))


@pytest.mark.parametrize("bound", [2**28, 2**28 + 1, 2**32 + 1])
def test_large_ranges_take_two_words_a_number(bound):
    made = model.fill(0, 1000, lambda w: model.integers(w, 0, bound), unroll=2)
    assert digest(made) == RECORD[f"random_ int64 0 {bound}|0"][1]


# A thread reads 1, 2, 4 or 8 elements at once, in one round or more.
COUNTS = "1 2 3 4 6 7 8 100 1001 1002 1004 270336 1000002 1000003 1081348".split()


@pytest.mark.parametrize(
    "name",
    [
        key
        for key in RECORD
        if key.startswith(("native_dropout float32", "native_dropout float16"))
        and key.split()[2] in COUNTS
    ],
)
def test_dropout_keeps_the_recorded_elements(name):
    words, seed = name.split("|")
    _, dtype, count, p = words.split()
    itemsize = 4 if dtype == "float32" else 2
    mask = model.dropout_mask(int(seed), int(count), float(p), itemsize)
    assert digest(mask) == RECORD[name][2]
