"""Whatever the moment of its death, a device process takes nothing else along."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kills.py")


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", ["start", "kernel", "copy", "wait", "sharing"])
def test_a_death_at_any_moment_is_told_and_leaves_nothing_over(stage, rounds):
    done = subprocess.run(
        [sys.executable, PROGRAM, stage, str(rounds), str(rounds)],
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parent)},
        capture_output=True,
        text=True,
        timeout=30 * rounds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
