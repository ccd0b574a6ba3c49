"""The order in which queued work runs, changed while the process runs."""

from collections.abc import Iterable
from typing import NamedTuple

from torch_openreg import _C

from .._lazy import _lazy_init

SCHEDULES = ("auto", "async", "adversarial")


class Task(NamedTuple):
    """A task that the adversarial schedule can hold back."""

    number: int
    name: str
    stream: int
    device: int

    def __str__(self) -> str:
        place = f"stream {self.stream} of device {self.device}"
        return f"task {self.number}, {self.name}, in {place}"


class Schedule:
    """A schedule, in force inside its context. Made by :func:`schedule`."""

    def __init__(self, policy: str, seed: int, delays: Iterable[int] | None):
        if policy not in SCHEDULES:
            raise ValueError(
                f"expected one of {', '.join(SCHEDULES)}, but got {policy!r}"
            )
        if delays is not None and policy != "adversarial":
            raise ValueError(
                f"only the adversarial schedule has delays, but the schedule is {policy!r}"
            )
        self._wanted = (
            SCHEDULES.index(policy),
            seed,
            None if delays is None else list(delays),
        )
        self._tasks: list[Task] | None = None

    def __enter__(self) -> "Schedule":
        _lazy_init()
        self._before = _C._getSchedule()
        _C._setSchedule(*self._wanted)
        return self

    def __exit__(self, *_) -> None:
        self._tasks = self._read()
        _C._setSchedule(*self._before, None)

    @staticmethod
    def _read() -> list[Task]:
        return [Task(i, *task) for i, task in enumerate(_C._scheduledTasks())]

    @property
    def tasks(self) -> list[Task]:
        """The tasks that were queued under the adversarial schedule, in that order."""
        return self._read() if self._tasks is None else self._tasks


def schedule(
    policy: str = "adversarial",
    seed: int = 0,
    delays: Iterable[int] | None = None,
) -> Schedule:
    """A context in which queued work runs in another order, on all devices::

        with torch.openreg.faults.schedule("adversarial", seed=3):
            step()

    Entering and leaving wait for all devices.

    Args:
        policy: ``"auto"``, ``"async"`` or ``"adversarial"``, as ``OPENREG_SCHEDULE``
        seed: of the adversarial schedule
        delays: numbers of tasks, counted from 0 in the context; the adversarial
            schedule holds back only these, and lets the others run in the order in
            which they were queued. By default it holds back all.
    """
    return Schedule(policy, seed, delays)
