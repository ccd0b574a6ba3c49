"""The quick tests of this folder again, with everything queued that can be."""

from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_queued_operators_give_the_same(schedule, run_tests):
    folder, variables = Path(__file__).parent, {"OPENREG_SCHEDULE": schedule}
    printed = run_tests("-m", "not slow", folder, timeout=1200, **variables)
    print(printed[-8000:])
