"""Traces parts of a program, with the names of ``torch.cuda.profiler``.

There :func:`start` and :func:`stop` speak to a tool outside of the program, and do
nothing if there is none. Here the tool is :mod:`torch.profiler`, and :func:`init` says
where its traces go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as _TorchProfiler

from .. import _C

__all__ = ["emit_ranges", "init", "profile", "start", "stop"]

_output: Path | None = None
_written = 0
_running: _TorchProfiler | None = None


def init(output_file: str) -> None:
    """Let :func:`start` and :func:`stop` write a trace to a file.

    Each pair of them writes one: the second goes to ``name.2.json``, and so on.
    """
    global _output, _written
    _output, _written = Path(output_file), 0


def start() -> None:
    """Begin a trace of the calling thread and of the devices, if :func:`init` said
    where it goes. It takes the place of a profiler that runs: PyTorch has one at a
    time."""
    global _running
    if _output is None:
        return
    if _running is not None:
        raise RuntimeError("start() was called twice; call stop() first")
    profiler = _TorchProfiler(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    )
    profiler.start()
    _running = profiler


def stop() -> None:
    """End the trace that :func:`start` began, and write it."""
    global _running, _written
    if _running is None or _output is None:
        return
    profiler, _running = _running, None
    profiler.stop()
    _written += 1
    number = "" if _written == 1 else f".{_written}"
    profiler.export_chrome_trace(
        str(_output.with_name(f"{_output.stem}{number}{_output.suffix}"))
    )


@contextmanager
def profile() -> Iterator[None]:
    """Trace a block."""
    start()
    try:
        yield
    finally:
        stop()


class emit_ranges:
    """Context in which each operator is a range, as those of ``torch.openreg.nvtx``.

    The twin of :class:`torch.autograd.profiler.emit_nvtx`: a range is named for the
    operator, its sequence number in the autograd graph and, with `record_shapes`, the
    sizes of its arguments. A profiler that runs shows the ranges, on the rows of the
    devices too.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False

    def __enter__(self) -> "emit_ranges":
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("the context emit_ranges is not reentrant")
        self.entered = True
        torch.openreg.synchronize()
        self._handle = _C._emitRanges(self.record_shapes)
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            torch.openreg.synchronize()
            _C._stopRanges(self._handle)
            self.entered = False
