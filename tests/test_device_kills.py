"""Whatever the moment of its death, a device process takes nothing else along."""

from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kills.py")


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", ["start", "kernel", "copy", "wait", "sharing"])
def test_a_death_at_any_moment_is_reported_and_leaves_nothing_behind(
    stage, rounds, run_script
):
    variables = {"OPENREG_EXECUTOR": "process", "OMP_NUM_THREADS": "1"}
    done = run_script(PROGRAM, stage, rounds, rounds, timeout=30 * rounds, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
