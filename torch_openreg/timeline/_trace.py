"""A trace as rows of streams, and what can be computed of them."""

import gzip
import json
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

KERNEL = "kernel"
COPIES = ("gpu_memcpy", "gpu_memset")
CALLS = (
    *("privateuse1_runtime", "privateuse1_driver"),
    *("cuda_runtime", "cuda_driver"),
)
OPERATOR = "cpu_op"

Interval = tuple[float, float]


class NotATrace(Exception):
    """The file holds something else; the text says what is wrong."""


# --- intervals --------------------------------------------------------------------


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points, as intervals in order that do not touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in union(intervals))


def overlap(first: Iterable[Interval], second: Iterable[Interval]) -> float:
    """How long both go on at once."""
    a, b = union(first), union(second)
    return length(a) + length(b) - length([*a, *b])


# --- rows -------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Something with a beginning and an end, in microseconds."""

    name: str
    category: str
    start: float
    end: float
    pid: int | str
    tid: int | str
    correlation: int | None
    external: int | None

    @property
    def duration(self) -> float:
        return self.end - self.start

    @property
    def interval(self) -> Interval:
        return self.start, self.end


@dataclass(frozen=True)
class Gap:
    """Time in which a stream had nothing to do, between two of its rows.

    `call` is the host's call that queued the row after the gap and `operator` the one
    it was made in; `instead` is what the host did for most of the gap. None: the trace
    does not tell.
    """

    start: float
    end: float
    after: Row
    call: Row | None
    operator: Row | None
    instead: Row | None

    @property
    def duration(self) -> float:
        return self.end - self.start

    @property
    def queued_before(self) -> bool:
        """Whether the work was queued when the gap began: then it waited for another
        stream, not for the host."""
        return self.call is not None and self.call.end <= self.start


@dataclass(frozen=True)
class StreamRows:
    """What ran in one stream, in order."""

    device: int | str
    stream: int | str
    rows: list[Row]

    @property
    def busy(self) -> float:
        return length(row.interval for row in self.rows)

    @property
    def start(self) -> float:
        return self.rows[0].start

    @property
    def end(self) -> float:
        return max(row.end for row in self.rows)

    @property
    def idle(self) -> float:
        """Between its first row and its last."""
        return self.end - self.start - self.busy


@dataclass(frozen=True)
class HostThread:
    """Rows of a thread of the host, which nest."""

    rows: list[Row]

    @cached_property
    def _nested(self) -> tuple[list[Row], list[int]]:
        """Rows in order, and for each the number of the row around it, or -1."""
        ordered = sorted(self.rows, key=lambda row: (row.start, -row.end))
        outer, around = [], []
        for i, row in enumerate(ordered):
            while outer and ordered[outer[-1]].end < row.end:
                outer.pop()
            around.append(outer[-1] if outer else -1)
            outer.append(i)
        return ordered, around

    def between(self, start: float, end: float) -> list[Row]:
        """Rows that begin in that time, and those that were going on at its start."""
        ordered, around = self._nested
        first = bisect_left(ordered, start, key=lambda row: row.start)
        last = bisect_left(ordered, end, key=lambda row: row.start)
        found = ordered[first:last]
        number = first - 1
        while number >= 0:
            found.append(ordered[number])
            number = around[number]
        return found


class Trace:
    """The rows of a Chrome trace that tell of a device."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        rows = [self._row(e) for e in events if e.get("ph") == "X" and "dur" in e]
        self.device_rows = [r for r in rows if r.category in (KERNEL, *COPIES)]
        self._calls = {
            r.correlation: r
            for r in rows
            if r.category in CALLS and r.correlation is not None
        }
        self._operators = {
            r.external: r
            for r in rows
            if r.category == OPERATOR and r.external is not None
        }
        self._threads: dict[int | str, HostThread] = {}
        for row in rows:
            if row.category in (OPERATOR, *CALLS):
                self._threads.setdefault(row.tid, HostThread([])).rows.append(row)

    @staticmethod
    def _row(event: dict[str, Any]) -> Row:
        args = event.get("args", {})
        return Row(
            name=str(event.get("name", "")),
            category=str(event.get("cat", "")),
            start=float(event["ts"]),
            end=float(event["ts"]) + float(event["dur"]),
            pid=event.get("pid", 0),
            tid=event.get("tid", 0),
            correlation=args.get("correlation"),
            external=args.get("External id"),
        )

    @cached_property
    def streams(self) -> list[StreamRows]:
        """Those with rows, by device and stream."""
        found: dict[tuple[Any, Any], list[Row]] = {}
        for row in self.device_rows:
            found.setdefault((row.pid, row.tid), []).append(row)
        return [
            StreamRows(device, stream, sorted(rows, key=lambda row: row.start))
            for (device, stream), rows in sorted(
                found.items(),
                key=lambda item: [str(part).zfill(20) for part in item[0]],
            )
        ]

    def gaps(self, at_least: float) -> list[Gap]:
        """Gaps of so many microseconds and more, the longest first."""
        found = []
        for stream in self.streams:
            end = stream.rows[0].end
            for row in stream.rows[1:]:
                if row.start - end >= at_least:
                    found.append(self._gap(end, row))
                end = max(end, row.end)
        return sorted(found, key=lambda gap: -gap.duration)

    def _gap(self, start: float, after: Row) -> Gap:
        call = self._calls.get(after.correlation)
        operator = self._operators.get(after.external)
        return Gap(
            start, after.start, after, call, operator, self._instead(start, call)
        )

    def _instead(self, start: float, call: Row | None) -> Row | None:
        """What the thread of a call did for the longest time since then, the inner of
        two rows that cover as much."""
        if call is None or call.start <= start:
            return None

        def covered(row: Row) -> float:
            return min(row.end, call.start) - max(row.start, start)

        seen = self._threads[call.tid].between(start, call.start)
        return max(
            (row for row in seen if covered(row) > 0),
            key=lambda row: (covered(row), -row.duration),
            default=None,
        )

    def kernels(self) -> list[tuple[str, int, float]]:
        """(name, how many, microseconds of all), the slowest first."""
        found: dict[str, list[float]] = {}
        for row in self.device_rows:
            if row.category == KERNEL:
                found.setdefault(row.name, []).append(row.duration)
        totals = [(name, len(times), sum(times)) for name, times in found.items()]
        return sorted(totals, key=lambda item: -item[2])

    def copies(self) -> tuple[float, float]:
        """(how long copies ran, how much of it beside kernels of the same device)."""
        total = beside = 0.0
        for device in {row.pid for row in self.device_rows}:
            mine = [row for row in self.device_rows if row.pid == device]
            copies = [row.interval for row in mine if row.category in COPIES]
            kernels = [row.interval for row in mine if row.category == KERNEL]
            total += length(copies)
            beside += overlap(copies, kernels)
        return total, beside


# --- files ------------------------------------------------------------------------


def load(path: str | Path) -> Trace:
    """Read a trace. Raises :class:`NotATrace`, or an `OSError`."""
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        content = json.loads(data)
    except (ValueError, EOFError, OSError) as error:
        raise NotATrace(f"{path} is not JSON: {error}") from None
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        raise NotATrace(
            f"{path} is not a trace: it has no list `traceEvents`; "
            "export_chrome_trace() of torch.profiler writes one"
        )
    try:
        return Trace(events)
    except (KeyError, TypeError, ValueError) as error:
        raise NotATrace(
            f"{path} is not a trace: a row has no time ({error!r})"
        ) from None
