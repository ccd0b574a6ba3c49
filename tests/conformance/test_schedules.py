"""The quick tests of this folder again, with everything queued that can be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_queued_operators_give_the_same(schedule):
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not slow", Path(__file__).parent],
        env={**os.environ, "OPENREG_SCHEDULE": schedule},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    print(result.stdout[-8000:])
    assert result.returncode == 0
