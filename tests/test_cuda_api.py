"""Every public name of torch.cuda and torch.backends.cuda, in CUDA's place: it does what
its documentation says, or is an error that says why it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WALKS = Path(__file__).parent / "cuda_walks"


@pytest.mark.parametrize(("walk", "count"), [("torch_cuda", 120), ("backends", 35)])
def test_every_public_name_works_or_is_refused(walk, count):
    result = subprocess.run(
        [sys.executable, WALKS / f"{walk}.py"],
        env={**os.environ, "OPENREG_AS": "cuda", "OPENREG_QUIET": "1"},
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    assert len(outcome) >= count
    assert {name: told for name, told in outcome.items() if told != "works"} == {}
