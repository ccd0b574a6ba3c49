"""Prints how many entries of each database passed, so that it can be read off."""

from collections import Counter, defaultdict

import inventory
import pytest
import torch

TALLY = defaultdict(Counter)  # by suite and dtype


@pytest.fixture(autouse=True)
def device(request):
    """Ends the run if a test breaks the device: nothing can be learnt after it."""
    yield
    try:
        torch.openreg.synchronize()
    except torch.AcceleratorError as error:
        request.session.shouldstop = f"{request.node.name} broke the device: {error}"


@pytest.fixture
def settle():
    """Checks a verdict against the inventory and counts it."""

    def check(suite, name, dtype, verdict, strict=False):
        dtype = str(dtype).removeprefix("torch.")
        counts = TALLY[suite, dtype]
        counts["entries"] += 1
        counts["refused"] += "forward" not in verdict
        counts.update(f"{direction} all" for direction in verdict)
        ends = inventory.judge(suite, name, dtype, verdict, strict)
        counts.update(f"{direction} {end}" for direction, end in ends.items())

    return check


def pytest_terminal_summary(terminalreporter):
    if not TALLY:
        return
    terminalreporter.section(f"conformance, schedule {inventory.SCHEDULE}")
    for (suite, dtype), counts in sorted(TALLY.items()):
        line = [f"{suite}, {dtype}: {counts['entries']} entries"]
        for direction in ("forward", "backward"):
            if total := counts[f"{direction} all"]:
                passed = counts[f"{direction} passed"]
                share = 100 * passed / total
                line.append(f"{direction} {passed} of {total} ({share:.1f} %)")
        expected = sum(n for key, n in counts.items() if key.endswith(" expected"))
        line.append(f"{expected} expected failures")
        if refused := counts["refused"]:
            line.append(f"{refused} refused as on the CPU")
        terminalreporter.write_line(", ".join(line))
