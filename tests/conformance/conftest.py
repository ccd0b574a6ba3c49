"""What the comparisons with the CPU share."""

import inventory
import pytest
import torch
from tally import TALLY


@pytest.fixture(autouse=True)
def device(request):
    """Ends the run if a test breaks the device: nothing can be learnt after it."""
    yield
    try:
        torch.accelerator.synchronize()
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
