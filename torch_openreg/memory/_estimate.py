"""What memory a piece of a program takes, phase by phase."""

import bisect
import itertools
import os
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from torch_openreg import _C
from torch_openreg._device_name import A_NAME, NAME

from ._phases import PHASES, Peak, Peaks, Phases
from ._snapshot import (
    NO_STACK,
    Allocation,
    allocated,
    allocated_before,
    changes,
    own_frames,
    place,
)
from ._text import size, table

LARGEST = 10  # tensors that are told of
# Entries of the history. It is read long before it is full.
ENTRIES = 120_000
# The GPU on which the memory of libraries was recorded.
RECORDED = "NVIDIA H200"
# Measured there, of the peak of a step; docs/profiles.md has more figures.
ERROR = "83 % of convolutions within 5 %, 90 % within 20 %"


# --- the figures ------------------------------------------------------------------


class Tensor(NamedTuple):
    """Memory that was allocated when a device used most."""

    size: int  # as requested
    phase: str  # in which it was allocated
    place: str  # innermost frame that is not torch's own
    stack: list[str]  # all of them


@dataclass
class DeviceEstimate:
    """The figures of one device."""

    index: int
    name: str
    total: int
    phases: dict[str, Peak] = field(default_factory=dict)
    largest: list[Tensor] = field(default_factory=list)
    #: Allocations that failed, whether or not the program went on.
    failures: list[Tensor] = field(default_factory=list)
    #: The most that the libraries of the GPU would have at a time, which is part of
    #: the peaks: 0 unless the device poses as an NVIDIA GPU.
    library_workspace: int = 0

    @property
    def library_note(self) -> str:
        """How far to trust `library_workspace`."""
        if self.name == RECORDED:
            return f"library workspace, by rules: {ERROR}"
        return f"library workspace, not recorded on this GPU; on an H200 {ERROR}"

    @property
    def peak(self) -> Peak:
        peak = Peak()
        for phase in self.phases.values():
            peak.raise_to(phase)
        return peak


# --- the tensors ------------------------------------------------------------------


class _Tensors:
    """Follows what is allocated on a device, and keeps the state with most."""

    def __init__(self):
        self._live: dict[int, Allocation] = {}
        self._most = -1
        self.largest: list[Tensor] = []
        self.failures: list[Tensor] = []

    def follow(self, trace, after: dict[int, Allocation], phase_of) -> None:
        start = allocated_before(trace, after, self._live)
        live = {**start}
        most = total = sum(allocation.size for allocation in start.values())
        when = 0
        for i, change in enumerate(changes(trace, live, phase_of), 1):
            total += change.sign * change.allocation.size
            if total > most:
                most, when = total, i
        self._live = live
        self.failures += [
            self._tensor(
                Allocation(entry["size"], entry.get("frames", []), phase_of(entry))
            )
            for entry in trace
            if entry["action"] == "oom"
        ]
        if most > self._most:
            self._most = most
            for _ in itertools.islice(changes(trace, start, phase_of), when):
                pass
            ranked = sorted(start.values(), key=lambda allocation: -allocation.size)
            self.largest = [self._tensor(each) for each in ranked[:LARGEST]]

    @staticmethod
    def _tensor(allocation: Allocation) -> Tensor:
        size, frames, phase = allocation
        return Tensor(size, phase or "before", place(frames), own_frames(frames))


# --- all of it --------------------------------------------------------------------


class Estimate:
    """A context, and afterwards the figures of what ran in it.

    Attributes:
        devices: the figures of the devices that were used
        error: why it does not fit, or None
    """

    def __init__(self):
        self.devices: list[DeviceEstimate] = []
        self.error: str | None = None

    @property
    def fits(self) -> bool:
        """Whether it ended without an out-of-memory error."""
        return self.error is None

    # While it runs

    def __enter__(self) -> "Estimate":
        module = torch.get_device_module(NAME)
        module.init()
        self.devices, self.error = [], None
        count = module.device_count()
        self._all = [
            DeviceEstimate(i, module.get_device_name(i), module.mem_get_info(i)[1])
            for i in range(count)
        ]
        self._tensors = [_Tensors() for _ in range(count)]
        self._process = os.getpid()
        self._seen = [0] * count  # allocations when the history was last read
        self._used: set[int] = set()
        self._full = False
        self._marks: list[tuple[int, str]] = []  # when a phase ended, which
        self._phases = Phases(self._leave)
        self._peaks = Peaks(count, lambda: self._note(self._phases.current))
        self._record(clear_history=True)
        for device in range(count):
            self._seen[device] = self._peaks.take(device)[1]
            _C._resetLibraryPeak(device)
        self._peaks.start()
        self._phases.start()
        return self

    def __exit__(self, kind, error, _) -> None:
        if os.getpid() != self._process:
            return  # a child, for which the device is closed
        self._phases.stop()
        self._peaks.stop()
        self._follow()
        torch.get_device_module(NAME).memory._record_memory_history(None)
        if isinstance(error, torch.OutOfMemoryError):
            self.error = str(error).partition("\n")[0]
        for device, tensors in zip(self._all, self._tensors, strict=True):
            device.largest, device.failures = tensors.largest, tensors.failures
            device.library_workspace = _C._libraryPeak(device.index)
        self.devices = [
            device
            for device in self._all
            if device.failures or device.index in self._used
        ]

    @staticmethod
    def _record(**options) -> None:
        torch.get_device_module(NAME).memory._record_memory_history(
            context="alloc", stacks="python", max_entries=ENTRIES, **options
        )

    def _note(self, phase: str) -> None:
        for device, figures in enumerate(self._all):
            peak, allocations = self._peaks.take(device)
            figures.phases.setdefault(phase, Peak()).raise_to(peak)
            if allocations != self._seen[device]:
                self._used.add(device)
            # An allocation can have three entries, and one for its segment.
            if abs(allocations - self._seen[device]) > ENTRIES // 8:
                self._seen[device] = allocations
                self._full = True

    def _leave(self, phase: str) -> None:
        self._marks.append((time.time_ns() // 1000, phase))
        self._note(phase)
        if self._full:
            self._follow()
            self._record(clear_history=True)

    def _phase_of(self, entry: dict) -> str:
        i = bisect.bisect_left(self._marks, (entry["time_us"], ""))
        return self._marks[i][1] if i < len(self._marks) else "other"

    def _follow(self) -> None:
        snapshot = torch.get_device_module(NAME).memory._snapshot()
        for device, tensors in enumerate(self._tensors):
            after = allocated(snapshot["segments"], device)
            trace = snapshot["device_traces"][device]
            tensors.follow(trace, after, self._phase_of)
        self._marks.clear()
        self._full = False

    # Afterwards

    def show(self) -> None:
        """Print the figures, and whether it fits."""
        if not self.devices:
            print(
                f"No memory of {A_NAME} device was used. Does the program choose "
                f'its device, such as "{NAME}" or '
                "torch.accelerator.current_accelerator()?"
            )
        for device in self.devices:
            self._show(device)
        if self.error:
            print(f"does not fit: {self.error}")
        for device in self.devices if self.fits else ():
            failed = len(device.failures)
            after = f", after {failed} failed allocations" if failed else ""
            print(
                f"fits: {NAME}:{device.index} reserved {size(device.peak.reserved)} "
                f"of {size(device.total)} at most{after}"
            )

    @staticmethod
    def _show(device: DeviceEstimate) -> None:
        rows = {name: device.phases[name] for name in PHASES if name in device.phases}
        figures = [
            (size(peak.allocated), size(peak.reserved), name)
            for name, peak in [*rows.items(), ("all", device.peak)]
        ]
        if device.library_workspace:
            workspace = size(device.library_workspace)
            figures.append((workspace, "", device.library_note))
        table(
            f"{NAME}:{device.index}, {device.name}, {size(device.total)}",
            ("allocated", "reserved", "at the peak of"),
            figures,
            right=2,
        )
        for title, tensors in (
            ("largest tensors at the peak", device.largest),
            ("allocations that failed", device.failures[-3:]),
        ):
            if tensors:
                table(
                    title,
                    ("size", "phase", "where"),
                    ((size(t.size), t.phase, _where(t)) for t in tensors),
                    right=1,
                )


def _where(tensor: Tensor) -> str:
    if tensor.place == NO_STACK and tensor.phase == "backward":
        return "(autograd's thread, no Python stack)"
    return " < ".join(tensor.stack[:3]) or tensor.place


def estimate() -> Estimate:
    """Measure a block of code::

        with torch_openreg.memory.estimate() as figures:
            step()
        print(figures.devices[0].phases["backward"].allocated)
        figures.show()

    A history that was being recorded ends, and when the block ends, peaks start
    again from what is in use. Errors pass through; after one for want of memory
    ``figures.fits`` is False.
    """
    return Estimate()
