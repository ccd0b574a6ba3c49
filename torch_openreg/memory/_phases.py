"""The phases of a program that trains, and the peaks in each."""

import os
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules import module as _modules
from torch.optim import optimizer as _optimizers

from torch_openreg import _C
from torch_openreg._device_name import IS_CUDA

PHASES = ("forward", "backward", "optimizer step", "other")

# --- the phases -------------------------------------------------------------------


class Phases:
    """Calls `leave(phase)` when a phase ends.

    A phase inside another is told by its own name, but a forward pass inside a
    backward pass, which computes again what was not kept, belongs to that.
    """

    def __init__(self, leave):
        self._leave = leave
        self._open: list[tuple[object, str]] = []  # who began it, which
        self._lock = threading.Lock()
        self._undo: list = []
        self._process = os.getpid()

    @property
    def current(self) -> str:
        return self._open[-1][1] if self._open else "other"

    def _begin(self, owner: object, phase: str) -> None:
        if os.getpid() != self._process:
            return  # a worker that loads data, for which the device is closed
        with self._lock:
            before = self.current
            if (before, phase) == ("backward", "forward"):
                phase = before
            if phase != before:
                self._leave(before)
            self._open.append((owner, phase))

    def _end(self, owner: object) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            before = self.current
            for i in reversed(range(len(self._open))):
                if self._open[i][0] is owner:
                    del self._open[i]
                    break
            if self.current != before:
                self._leave(before)

    def _begin_step(self, optimizer, *_) -> None:
        # A step that failed did not say that it ended.
        self._end(optimizer)
        self._begin(optimizer, "optimizer step")

    def _backward(self, run):
        def backward(*arguments, **options):
            owner = object()
            self._begin(owner, "backward")
            try:
                return run(*arguments, **options)
            finally:
                self._end(owner)

        return backward

    def start(self) -> None:
        handles = (
            _modules.register_module_forward_pre_hook(
                lambda module, _: self._begin(module, "forward")
            ),
            _modules.register_module_forward_hook(
                lambda module, *_: self._end(module), always_call=True
            ),
            _optimizers.register_optimizer_step_pre_hook(self._begin_step),
            _optimizers.register_optimizer_step_post_hook(
                lambda optimizer, *_: self._end(optimizer)
            ),
        )
        self._undo += [handle.remove for handle in handles]
        # Tensor.backward, torch.autograd.backward and grad all call it.
        run = torch.autograd._engine_run_backward
        torch.autograd._engine_run_backward = self._backward(run)
        self._undo.append(lambda: setattr(torch.autograd, "_engine_run_backward", run))

    def stop(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._leave(self.current)
        self._open.clear()


# --- the peaks --------------------------------------------------------------------


@dataclass
class Peak:
    """The most that was used at one time, in bytes."""

    allocated: int = 0
    reserved: int = 0

    def raise_to(self, other: "Peak") -> None:
        self.allocated = max(self.allocated, other.allocated)
        self.reserved = max(self.reserved, other.reserved)


def _with_peaks(figures: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """Statistics with the peaks of others where these are higher."""
    merged = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            value = _with_peaks(value, saved.get(key, {}))
        elif key == "peak":
            value = max(value, saved.get(key, 0))
        merged[key] = value
    return merged


class Peaks:
    """Reads the peaks since it last did so. The program must not notice that they
    start again each time, so it is given the highest since its own last reset."""

    # The functions that return statistics, and those that reset the peaks.
    FUNCTIONS = [
        (_C, "_memoryStats", "_resetPeakStats"),
        (torch._C, "_accelerator_getDeviceStats", "_accelerator_resetPeakStats"),
    ]
    if IS_CUDA:
        FUNCTIONS.append((torch._C, "_cuda_memoryStats", "_cuda_resetPeakMemoryStats"))

    def __init__(self, devices: int, before_reset):
        self._saved: list[dict] = [{} for _ in range(devices)]
        self._before_reset = before_reset
        self._read, self._reset = _C._memoryStats, _C._resetPeakStats
        self._undo: list = []

    def start(self) -> None:
        for module, read, reset in self.FUNCTIONS:
            self._replace(module, read, self._reader(getattr(module, read)))
            self._replace(module, reset, self._resetter)

    def stop(self) -> None:
        while self._undo:
            setattr(*self._undo.pop())

    def take(self, device: int) -> tuple[Peak, int]:
        """The peaks of a device, and how many allocations it has seen."""
        figures = self._read(device)
        self._saved[device] = _with_peaks(figures, self._saved[device])
        self._reset(device)
        peak = Peak(
            figures["allocated_bytes"]["all"]["peak"],
            figures["reserved_bytes"]["all"]["peak"],
        )
        return peak, figures["allocation"]["all"]["allocated"]

    def _replace(self, module, name: str, function) -> None:
        self._undo.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def _reader(self, read):
        return lambda device: _with_peaks(read(device), self._saved[device])

    def _resetter(self, device: int) -> None:
        self._before_reset()
        self._reset(device)
        self._saved[device] = {}
