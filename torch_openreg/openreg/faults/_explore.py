"""Lets every place of a function fail in turn, and tries many orders of its work."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import _trial
from ._plan import SITES, plan
from ._progress import track
from ._schedule import Task, schedule
from ._shrink import smallest

_KIND = {site: "oom" if site == "alloc" else "error" for site in SITES}


def _accepted(site: str) -> tuple[type, ...]:
    if site == "alloc":
        return (torch.OutOfMemoryError,)
    if site == "collective":
        return (torch.distributed.DistBackendError,)
    return (torch.AcceleratorError,)


@dataclass
class Finding:
    """A place whose failure the function did not survive, or an order.

    Attributes:
        where: the rule of the fault plan, or the schedule
        problem: ``"hang"``, ``"wrong exception"``, ``"wrong number"``, ``"wrong number
            afterwards"``, ``"fails afterwards"``, ``"leaked memory"`` or ``"fails"``
        detail: what was seen
        delays: of a schedule: the smallest set of tasks whose delay still fails
        tasks: of a schedule: all that was queued, in the order of the calls
    """

    where: str
    problem: str
    detail: str
    delays: list[Task] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list, repr=False)

    def save(self, path: str | Path) -> None:
        """Write a page with a picture of the schedule, for a browser."""
        from ._page import page

        if not self.tasks:
            raise ValueError(
                f"only a schedule has a picture, but this is {self.problem} at {self.where}"
            )
        Path(path).write_text(page(self), encoding="utf-8")

    def __str__(self) -> str:
        lines = [f"{self.problem} at {self.where}: {self.detail}"]
        lines += [f"    delayed: {task}" for task in self.delays]
        return "\n".join(lines)


@dataclass
class Exploration:
    """What :func:`explore` found.

    Attributes:
        places: how many places of each site the function has
        tried: how many of them were made to fail
        schedules: how many orders were tried
        findings: what did not end cleanly
        complete: whether it came to its end; a hang stops it
    """

    places: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    schedules: int = 0
    findings: list[Finding] = field(default_factory=list)
    complete: bool = True

    @property
    def clean(self) -> bool:
        """Whether nothing was found, and everything tried."""
        return not self.findings and self.complete

    def assert_clean(self) -> None:
        """Raise an ``AssertionError`` with the table unless all ended cleanly."""
        if not self.clean:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        places = ", ".join(f"{n} {site}" for site, n in self.places.items())
        what = [f"{self.tried} places failed in turn ({places})"] if self.tried else []
        what += [f"{self.schedules} schedules"] if self.schedules else []
        head = f"explored {' and '.join(what) or 'nothing'}: "
        head += f"{len(self.findings)} findings" if self.findings else "all clean"
        if not self.complete:
            head += "; a hang ended it early, so the rest was not tried"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


class _Explorer:
    def __init__(self, fn, expected, timeout, show):
        self._fn = fn
        self._expected = tuple(expected)
        self._timeout = timeout
        self._show = show
        self.result = Exploration()
        self._reference = self._run_cleanly()
        self._held = _trial.allocated()

    def _run(self) -> _trial.Outcome:
        return _trial.run(self._fn, self._timeout)

    def _run_cleanly(self) -> Any:
        """What the function returns if nothing fails; the same every time."""
        first, second = self._run(), self._run()
        for outcome in (first, second):
            if not outcome.returned:
                raise RuntimeError(
                    "the function must work before its failures are explored, but it "
                    + (
                        f"hangs:\n{outcome.hang}"
                        if outcome.hang
                        else f"raised {outcome.error.__name__}: {outcome.message}"
                    )
                )
        if not _trial.same(first.result, second.result):
            raise ValueError(
                "two runs of the function without a fault gave different results, so a "
                "wrong number could not be recognised: seed it, and let it make its own "
                "tensors"
            )
        return second.result

    def _find(self, where: str, problem: str, detail: str) -> None:
        self.result.findings.append(Finding(where, problem, detail))

    # --- faults ---

    def fail_everywhere(self, sites: Sequence[str], at_most: int | None, seed: int):
        with plan() as counting:
            self._run()
        asked = counting.asked
        self.result.places = {site: asked[site] for site in sites if site in asked}
        places = [
            (site, number)
            for site, count in self.result.places.items()
            for number in _sample(count, at_most, seed)
        ]
        for site, number in track(places, len(places), "faults", self._show):
            self._fail_at(site, f"{_KIND[site]}@{site}:{number}")
            if not self.result.complete:
                break

    def _fail_at(self, site: str, rule: str) -> None:
        with plan(rule) as fault:
            outcome = self._run()
        self.result.tried += 1
        if outcome.hang:
            self._find(rule, "hang", f"no end after {self._timeout} s\n{outcome.hang}")
            self.result.complete = False
            return
        if outcome.error:
            if not issubclass(outcome.error, _accepted(site) + self._expected):
                told = f"{outcome.error.__name__}: {outcome.message}"
                self._find(rule, "wrong exception", told)
        elif fault.fired and not _trial.same(outcome.result, self._reference):
            self._find(rule, "wrong number", "it returned, but not what it should")
        _trial.mend()
        self._check_afterwards(rule)

    def _check_afterwards(self, rule: str) -> None:
        again = self._run()
        if again.hang:
            self._find(rule, "hang", f"in the run after it\n{again.hang}")
            self.result.complete = False
            return
        if again.error:
            told = f"{again.error.__name__}: {again.message}"
            self._find(rule, "fails afterwards", told)
            _trial.mend()
        elif not _trial.same(again.result, self._reference):
            self._find(rule, "wrong number afterwards", "the next run differs")
        held = _trial.allocated(self._held)
        if held > self._held:
            self._find(rule, "leaked memory", f"{held - self._held} bytes are left")
        self._held = held

    # --- schedules ---

    def try_schedules(self, count: int) -> None:
        for seed in track(range(count), count, "schedules", self._show):
            self.result.schedules += 1
            with schedule("adversarial", seed) as order:
                outcome = self._run()
            if self._is_right(outcome):
                continue
            _trial.mend()
            if outcome.hang:
                self._find(f"schedule {seed}", "hang", outcome.hang)
                self.result.complete = False
            else:
                self._report(seed, order.tasks, outcome)
            break

    def _is_right(self, outcome: _trial.Outcome) -> bool:
        return outcome.returned and _trial.same(outcome.result, self._reference)

    def _fails_with(self, seed: int, delays: list[int]) -> bool:
        with schedule("adversarial", seed, delays):
            outcome = self._run()
        if outcome.error:
            _trial.mend()
        return not outcome.hang and not self._is_right(outcome)

    def _report(self, seed: int, tasks: list[Task], outcome: _trial.Outcome) -> None:
        numbers = smallest(
            [task.number for task in tasks],
            lambda delays: self._fails_with(seed, delays),
        )
        told = "it returned another result than without delays"
        if outcome.error:
            told = f"{outcome.error.__name__}: {outcome.message}"
        told += f"; again: faults.schedule('adversarial', {seed}, delays={numbers})"
        self.result.findings.append(
            Finding(
                f"schedule {seed}",
                "fails" if outcome.error else "wrong number",
                told,
                [tasks[number] for number in numbers],
                tasks,
            )
        )


def _sample(count: int, at_most: int | None, seed: int) -> list[int]:
    """Numbers of places: all, or as many as wanted, with the first and the last."""
    numbers = range(1, count + 1)
    if at_most is None or count <= at_most:
        return list(numbers)
    ends = {1, count} if at_most > 1 else {1}
    inner = random.Random(seed).sample(numbers[1:-1], at_most - len(ends))
    return sorted(ends | set(inner))


def explore(
    fn: Callable[[], Any],
    *,
    sites: Sequence[str] | None = None,
    schedules: int = 0,
    at_most: int | None = None,
    expected: Sequence[type] = (),
    timeout: float = 60.0,
    seed: int = 0,
    progress: bool | None = None,
) -> Exploration:
    """Let every allocation, launch, copy, capture and collective of a function fail in
    turn, and say which did not end cleanly.

    A failure ends cleanly if the function raises the error that belongs to it
    (``torch.OutOfMemoryError`` for an allocation, ``torch.AcceleratorError`` for a
    launch, a copy or a capture, ``DistBackendError`` for a collective), or returns the
    right result all the same; if the next run gives the right result; and if no memory
    is left::

        torch.openreg.faults.explore(train_two_steps).assert_clean()

    With ``schedules=100`` it runs the function under that many adversarial orders of its
    work instead. The first order that gives another result is reduced to the fewest
    delays that still give it, which the finding lists.

    The function must make all tensors that it needs, because a failed launch breaks the
    device: it is then reset, and the contents of all tensors are lost. Its result must be
    the same in every run.

    Args:
        fn: called without arguments, in a thread of its own
        sites: where to let it fail; by default everywhere, with ``schedules`` nowhere
        schedules: how many orders to try, with the seeds from 0 on
        at_most: try at most this many places of each site, chosen by ``seed``
        expected: further exceptions that are right, such as the function's own
        timeout: seconds after which a run hangs; that ends the exploration
        seed: of the sample
        progress: whether to show a bar; by default if stderr is a terminal

    Raises:
        RuntimeError: the function fails without any fault
        ValueError: its result is not the same in every run, or an argument is wrong
    """
    if sites is None:
        sites = () if schedules else SITES
    for site in sites:
        if site not in SITES:
            raise ValueError(f"expected sites of {', '.join(SITES)}, but got {site!r}")
    if schedules < 0 or (at_most is not None and at_most < 1):
        raise ValueError(
            "schedules must be at least 0 and at_most at least 1, but they are "
            f"{schedules} and {at_most}"
        )
    explorer = _Explorer(fn, expected, timeout, progress)
    if sites:
        explorer.fail_everywhere(sites, at_most, seed)
    if schedules and explorer.result.complete:
        explorer.try_schedules(schedules)
    return explorer.result
