"""Whatever the moment of its death, a rank takes no other one along."""

from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("rank_kills.py")


@pytest.mark.in_threads("a device process keeps memory for its messages")
@pytest.mark.parametrize("rounds", [1, pytest.param(200, marks=pytest.mark.slow)])
def test_a_rank_killed_at_any_moment_is_named_and_leaves_nothing_over(
    rounds, run_script
):
    done = run_script(PROGRAM, rounds, rounds, timeout=60 + 15 * rounds)
    assert done.returncode == 0, done.stdout + done.stderr
