"""Tells where the memory of a device goes.

    python -m torch_openreg.memory report snapshot.pickle [-o report.html]
    python -m torch_openreg.memory estimate script.py [args] [--memory 24GiB]
                                   [--profile NAME] [--devices N]

`report` shows a snapshot of ``torch.openreg.memory._dump_snapshot()``, or of
torch.cuda's. `estimate` runs a script and tells what memory it takes; within a
program :func:`estimate` does it for a block of code.
"""

from ._estimate import DeviceEstimate, Estimate, Tensor, estimate
from ._failing import FailingAllocation, failing_allocation
from ._page import page
from ._phases import Peak
from ._snapshot import CallSite, History, NotASnapshot, load

__all__ = [
    "CallSite",
    "DeviceEstimate",
    "Estimate",
    "FailingAllocation",
    "History",
    "NotASnapshot",
    "Peak",
    "Tensor",
    "estimate",
    "failing_allocation",
    "load",
    "page",
]
