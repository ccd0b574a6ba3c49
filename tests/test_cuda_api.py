"""Every public name of torch.cuda and torch.backends.cuda, in CUDA's place: it does what
its documentation says, or is an error that says why it cannot. And what programs for CUDA
rely on beyond names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WALKS = Path(__file__).parent / "cuda_walks"


def walked(walk):
    """What it found of each of its checks."""
    result = subprocess.run(
        [sys.executable, WALKS / f"{walk}.py"],
        env={**os.environ, "OPENREG_AS": "cuda", "OPENREG_QUIET": "1"},
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(("walk", "count"), [("torch_cuda", 120), ("backends", 35)])
def test_every_public_name_works_or_is_refused(walk, count):
    outcome = walked(walk)
    assert len(outcome) >= count
    assert {name: told for name, told in outcome.items() if told != "works"} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("walk", "count"),
    [("memory", 28), ("streams", 32), ("graphs", 19), ("training", 40)],
)
def test_what_programs_rely_on_holds(walk, count):
    outcome = walked(walk)
    assert len(outcome) >= count
    assert {name: told for name, told in outcome.items() if told != "works"} == {}
