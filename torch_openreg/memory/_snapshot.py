"""What a snapshot contains: the allocations of a device, and where they were made."""

import functools
import itertools
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

# --- files ------------------------------------------------------------------------


class NotASnapshot(ValueError):
    """A file holds something else."""


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts and containers. A snapshot has nothing else, and a file
    from elsewhere must not run code."""

    def find_class(self, module, name):
        raise NotASnapshot(f"it has an object of {module}.{name}")


TRACED = ("alloc", "free_requested")  # the entries that tell of tensors


def load(path: str | os.PathLike) -> dict[str, Any]:
    """Read a snapshot of torch.openreg or torch.cuda, or a list of segments that
    memory_snapshot() gave. Raises OSError or :class:`NotASnapshot`."""
    with open(path, "rb") as file:
        try:
            found = _PlainUnpickler(file).load()
        except NotASnapshot as error:
            raise NotASnapshot(f"{path} is not a memory snapshot: {error}") from None
        # A pickle with wrong bytes can raise nearly anything.
        except Exception as error:
            cause = f"{path} is not a memory snapshot: it is not a pickle ({error})"
            raise NotASnapshot(cause) from None
    if isinstance(found, list):
        found = {"segments": found}
    try:
        for segment in found["segments"]:
            segment["device"], segment["address"], segment["total_size"]
            for block in segment["blocks"]:
                block["size"], block["state"]
        for trace in found.setdefault("device_traces", []):
            for entry in trace:
                entry["action"], entry["size"]
                if entry["action"] in TRACED:
                    entry["addr"]
    except (AttributeError, KeyError, TypeError) as error:
        cause = f"{path} is not a memory snapshot: {type(error).__name__}: {error}"
        raise NotASnapshot(cause) from None
    return found


def devices(snapshot: dict[str, Any]) -> list[int]:
    """The devices that have memory or a history."""
    traced = {
        i
        for i, trace in enumerate(snapshot["device_traces"])
        if any(entry["action"] != "snapshot" for entry in trace)
    }
    return sorted(traced | {segment["device"] for segment in snapshot["segments"]})


# --- places -----------------------------------------------------------------------

NO_STACK = "(no stack)"
ENGINE = "autograd engine (backward)"
BEFORE = "(before the history)"

_HERE = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
_PACKAGES = re.compile(
    r"[\\/](site-packages|dist-packages|pytorch)[\\/](torch|torch_openreg|functorch)[\\/]"
)
_NODE = re.compile(
    r"::(\w+Backward\d*)(?:_apply_functional|::apply)\(|(AccumulateGrad)"
)


@functools.cache
def _is_python(filename: str) -> bool:
    return filename.endswith(".py") or (
        filename.startswith("<") and not filename.startswith("<frozen")
    )


@functools.cache
def _is_torchs(filename: str) -> bool:
    return bool(_PACKAGES.search(filename)) or filename.startswith(
        tuple(folder + os.sep for folder in _HERE)
    )


def _frame(frame: dict) -> str:
    return f"{frame['filename']}:{frame['line']} {frame['name']}"


def own_frames(frames: Iterable[dict]) -> list[str]:
    """The frames of Python that are not torch's, the innermost first."""
    return [
        _frame(frame)
        for frame in frames
        if _is_python(frame["filename"]) and not _is_torchs(frame["filename"])
    ]


def place(frames: list[dict]) -> str:
    """The innermost frame that is not torch's own. In a backward pass, which has no
    Python above it, the node, if there are frames of C++."""
    for frame in frames:
        if _is_python(frame["filename"]) and not _is_torchs(frame["filename"]):
            return _frame(frame)
    for frame in frames:
        if node := _NODE.search(frame["name"]):
            return f"{node[1] or node[2]} (backward)"
    python = (frame for frame in frames if _is_python(frame["filename"]))
    if innermost := next(python, None):
        return _frame(innermost)
    engine = any("autograd::Engine" in frame["name"] for frame in frames)
    return ENGINE if engine else NO_STACK


# --- allocations ------------------------------------------------------------------


class Allocation(NamedTuple):
    size: int  # as requested
    frames: list[dict]
    note: str = ""  # what the reader wants to know of it


class Change(NamedTuple):
    allocation: Allocation
    sign: int  # 1 for an allocation, -1 for a free


def blocks_of(segment: dict) -> Iterator[dict]:
    """The blocks, each with an address: older snapshots do not have it."""
    address = segment["address"]
    for block in segment["blocks"]:
        yield {"address": address, **block}
        address += block["size"]


def allocated(segments: Iterable[dict], device: int) -> dict[int, Allocation]:
    """What is allocated on a device, by address."""
    return {
        block["address"]: Allocation(
            block.get("requested_size", block["size"]), block.get("frames", [])
        )
        for segment in segments
        if segment["device"] == device
        for block in blocks_of(segment)
        if block["state"] == "active_allocated"
    }


def allocated_before(
    trace: list[dict],
    after: dict[int, Allocation],
    known: dict[int, Allocation],
) -> dict[int, Allocation]:
    """What was allocated before a trace began: what it frees without having
    allocated it, and what is there after it that it did not allocate."""
    before, met = {}, set()
    for entry in trace:
        if entry["action"] in TRACED:
            address = entry["addr"]
            if entry["action"] == "free_requested" and address not in met:
                unknown = Allocation(entry["size"], [], BEFORE)
                before[address] = known.get(address, unknown)
            met.add(address)
    for address, allocation in after.items():
        if address not in met:
            before[address] = known.get(address, allocation)
    return before


def changes(
    trace: list[dict],
    live: dict[int, Allocation],
    note: Callable[[dict], str] = lambda entry: "",
) -> Iterator[Change]:
    """Goes through a trace and keeps `live` up to date."""
    for entry in trace:
        if entry["action"] == "alloc":
            frames = entry.get("frames", [])
            allocation = Allocation(entry["size"], frames, note(entry))
            live[entry["addr"]] = allocation
            yield Change(allocation, 1)
        elif entry["action"] == "free_requested":
            allocation = live.pop(entry["addr"], None)
            if allocation:
                yield Change(allocation, -1)


# --- history ----------------------------------------------------------------------

RESERVING = {"segment_alloc": 1, "segment_map": 1}
RESERVING |= {"segment_free": -1, "segment_unmap": -1}


@dataclass
class CallSite:
    """A place in a program that allocates. Sizes are as requested."""

    place: str
    now: int = 0
    peak: int = 0
    allocations: int = 0


class Step(NamedTuple):
    """The state after a change."""

    time: int  # microseconds
    allocated: int
    reserved: int
    sites: dict[str, int]  # bytes of the places that were asked for


@dataclass
class History:
    """What happened on a device, as far as a snapshot has it."""

    snapshot: dict[str, Any]
    device: int
    sites: dict[str, CallSite] = field(default_factory=dict)
    peak: int = 0
    at_peak: dict[str, int] = field(default_factory=dict)

    def __post_init__(self):
        traces = self.snapshot["device_traces"]
        self.trace = traces[self.device] if self.device < len(traces) else []
        self.segments = [
            segment
            for segment in self.snapshot["segments"]
            if segment["device"] == self.device
        ]
        after = allocated(self.segments, self.device)
        self._before = allocated_before(self.trace, after, {})
        self.reserved = sum(segment["total_size"] for segment in self.segments)
        self._count()

    def _count(self) -> None:
        for allocation in self._before.values():
            self._site(allocation).now += allocation.size
        for site in self.sites.values():
            site.peak = site.now
        total = self.peak = sum(site.now for site in self.sites.values())
        highest = 0
        for position, change in enumerate(changes(self.trace, {**self._before}), 1):
            total += change.sign * change.allocation.size
            if total > self.peak:
                self.peak, highest = total, position
            site = self._site(change.allocation)
            site.now += change.sign * change.allocation.size
            site.peak = max(site.peak, site.now)
            site.allocations += change.sign == 1
        self.now = total

        live = {**self._before}
        for _ in itertools.islice(changes(self.trace, live), highest):
            pass
        for allocation in live.values():
            name = self._place(allocation)
            self.at_peak[name] = self.at_peak.get(name, 0) + allocation.size

    def _place(self, allocation: Allocation) -> str:
        return allocation.note or place(allocation.frames)

    def _site(self, allocation: Allocation) -> CallSite:
        name = self._place(allocation)
        return self.sites.setdefault(name, CallSite(name))

    def top(self, count: int) -> list[CallSite]:
        """The call sites that held most at some time."""
        ranked = sorted(self.sites.values(), key=lambda s: (-s.peak, -s.now, s.place))
        return ranked[:count]

    def steps(self, places: Iterable[str]) -> Iterator[Step]:
        """The state before the trace and after each change in it."""
        totals = dict.fromkeys(places, 0)
        for allocation in self._before.values():
            if (name := self._place(allocation)) in totals:
                totals[name] += allocation.size
        level = sum(allocation.size for allocation in self._before.values())
        reserved = self.reserved - sum(
            RESERVING.get(entry["action"], 0) * entry["size"] for entry in self.trace
        )
        live = {**self._before}
        time = self.trace[0].get("time_us", 0) if self.trace else 0
        yield Step(time, level, reserved, {**totals})
        for entry in self.trace:
            grown = RESERVING.get(entry["action"], 0) * entry["size"]
            reserved += grown
            moved = 0
            for change in changes([entry], live):
                moved = change.sign * change.allocation.size
                level += moved
                if (name := self._place(change.allocation)) in totals:
                    totals[name] += moved
            if grown or moved:
                yield Step(entry.get("time_us", 0), level, reserved, {**totals})
