"""What became of the checks: results, the level that was reached, an earlier run."""

import dataclasses
import json

from .check import base_id
from .levels import LEVELS, level_of

# Status -> whether it counts for the level: True for, False against, None not at all.
STATUSES = {
    "passed": True,
    "failed": False,
    "crashed": False,
    "hung": False,
    "expected": True,  # fails, as the vendor's file says
    "unexpected": False,  # passes, though the vendor's file says that it fails
    "absent": None,
}


@dataclasses.dataclass
class Result:
    """What became of one check, or of one case of it."""

    id: str
    status: str
    message: str = ""
    seconds: float = 0.0

    @property
    def good(self):
        """True or False; None for what does not count."""
        return STATUSES[self.status]

    @property
    def level(self):
        """The number of its level."""
        return level_of(self.id.split(".")[0])


@dataclasses.dataclass
class Run:
    """All results of a device."""

    device: str
    results: list
    about: dict = dataclasses.field(default_factory=dict)  # versions, time
    absent: tuple = ()

    def of_level(self, number):
        """The results of one level."""
        return [result for result in self.results if result.level == number]

    def state_of(self, number):
        """True if the level is reached, False if a check fails, None if none counts."""
        counted = [r.good for r in self.of_level(number) if r.good is not None]
        return all(counted) if counted else None

    @property
    def reached(self):
        """The numbers of the levels whose checks all pass."""
        return [level.number for level in LEVELS if self.state_of(level.number)]

    @property
    def level(self):
        """The highest level that is reached with all below it; a level that the
        vendor declared absent as a whole stands in nobody's way."""
        highest = 0
        for level in LEVELS:
            state = self.state_of(level.number)
            if state is False or not self.of_level(level.number):
                break
            if state:
                highest = level.number
        return highest

    @property
    def bad(self):
        """The results that count against the device."""
        return [result for result in self.results if result.good is False]

    def packed(self):
        """As JSON: `level`, `reached`, and every result."""
        return json.dumps(
            {
                "device": self.device,
                "level": self.level,
                "reached": self.reached,
                "absent": list(self.absent),
                "about": self.about,
                "results": [dataclasses.asdict(result) for result in self.results],
            },
            indent=1,
        )

    @classmethod
    def unpacked(cls, text):
        """The run of packed(). Checks that no longer exist are left out."""
        found = json.loads(text)
        known = {group for level in LEVELS for group in level.groups}
        results = [Result(**result) for result in found["results"]]
        return cls(
            device=found["device"],
            results=[r for r in results if r.id.split(".")[0] in known],
            about=found["about"],
            absent=tuple(found["absent"]),
        )


@dataclasses.dataclass
class Comparison:
    """Ids of checks whose answer is not that of an earlier run."""

    worse: list
    better: list
    new: list
    gone: list

    def lines(self):
        """A line for each kind that there is."""
        kinds = (
            ("worse", self.worse),
            ("better", self.better),
            ("new", shortened(self.new)),
            ("not run any more", shortened(self.gone)),
        )
        return [f"{name}: {', '.join(ids)}" for name, ids in kinds if ids]


def shortened(ids, most=8):
    """The first, and how many more there are: another level has other checks."""
    return [*ids[:most], f"{len(ids) - most} more"] if len(ids) > most else ids


def compare(run, earlier):
    """What changed since the earlier run, by check; cases count one by one."""
    now = {result.id: result.good for result in run.results}
    then = {result.id: result.good for result in earlier.results}
    both = [check_id for check_id in now if check_id in then]
    return Comparison(
        worse=[i for i in both if now[i] is False and then[i] is not False],
        better=[i for i in both if now[i] and then[i] is False],
        new=[i for i in now if i not in then],
        gone=[i for i in then if i not in now],
    )


def grouped(results):
    """Check id without its case -> the results of its cases, in order."""
    groups = {}
    for result in results:
        groups.setdefault(base_id(result.id), []).append(result)
    return groups
