"""Failures on purpose: plans of faults, and a search for what they break.

A plan says which allocation, launch, copy, capture or collective fails, and how::

    with torch.openreg.faults.plan("error@op:aten::mm:5; seed=7") as plan:
        step()
    plan.fired  # {"error": 1}

:func:`explore` lets every place of a function fail in turn, and says where it did not
end cleanly.
"""

from ._explore import Exploration, Finding, explore
from ._plan import KINDS, SITES, Plan, plan
from ._schedule import Schedule, Task, schedule

__all__ = [
    "KINDS",
    "SITES",
    "Exploration",
    "Finding",
    "Plan",
    "Schedule",
    "Task",
    "explore",
    "plan",
    "schedule",
]
