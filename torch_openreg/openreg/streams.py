"""Streams and events under the names torch.cuda has."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.types import Device

from torch_openreg import _C
from torch_openreg._device_name import IS_CUDA, NAME
from torch_openreg._events import EventBase

from ._device import device as _device_context
from ._lazy import _lazy_init
from ._utils import _get_device_index

_DEVICE_TYPE = (DeviceType.CUDA if IS_CUDA else DeviceType.PrivateUse1).value


class Stream(torch.Stream):
    """A queue of device work, run in order.

    Args:
        device: where the stream runs, by default the current device
        priority: lower numbers are served first; a number outside of
            :meth:`priority_range` counts as the nearest inside

    Streams come from a pool, so the 33rd of a priority is the first again.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Stream:
        _lazy_init()
        if kwargs:  # stream_id, device_index, device_type: one that exists
            return super().__new__(cls, priority=priority, **kwargs)
        with _device_context(device):
            here = torch.device(NAME, _C._getDevice())
            return super().__new__(cls, here, priority=priority)

    @property
    def openreg_stream(self) -> int:
        """The handle, an ``orStream_t``."""
        return _C._getStreamHandle(self.stream_id, self.device_index)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.openreg_stream)

    @property
    def priority(self) -> int:
        """Lower numbers are served first."""
        return _C._getStreamPriority(self.stream_id, self.device_index)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority; the greatest is the lower number."""
        return _C._getStreamPriorityRange()

    def wait_event(self, event: torch.Event) -> None:
        """Let later work of this stream wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Let later work of this stream wait for what another has queued so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event, by default a new one, and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return (
            f"<torch.openreg.Stream device={self.device} "
            f"openreg_stream={self.openreg_stream:#x}>"
        )


class ExternalStream(Stream):
    """A stream that was created with libopenreg.

    It belongs to its creator, who must keep it alive while it is used here.

    Args:
        stream_ptr: the handle, an ``orStream_t``, as an int
        device: the stream's device, by default the current one
    """

    def __new__(
        cls, stream_ptr: int, device: Device = None, **kwargs: Any
    ) -> ExternalStream:
        _lazy_init()
        index = _get_device_index(device, optional=True)
        return super().__new__(
            cls,
            stream_id=_C._streamFromExternal(stream_ptr, index),
            device_index=index,
            device_type=_DEVICE_TYPE,
            **kwargs,
        )


class Event(EventBase):
    """A point in a stream's work, to wait for and to time.

    It belongs to the device it is first recorded on; streams of any device can
    wait for it.

    Args:
        enable_timing: whether :meth:`elapsed_time` works
        blocking: accepted as by torch.cuda; waiting here never burns a core
        interprocess: whether other processes can open it; then it has no timing
        external: whether a capture makes nodes of recording it and of waiting for it,
            so that each replay does both; without it they order the nodes of the
            graph and mean nothing outside
    """

    @property
    def openreg_event(self) -> int:
        """The handle, an ``orEvent_t``; 0 before the first record."""
        return self.event_id

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.openreg_event)

    def record(self, stream: torch.Stream | None = None) -> None:
        """Stand for all work queued in a stream, by default the current one."""
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Let later work of a stream, by default the current one, wait for this."""
        super().wait(current_stream() if stream is None else stream)

    def __repr__(self) -> str:
        what = f"{self.event_id:#x}" if self.event_id else "uninitialized"
        return f"<torch.openreg.Event {what}>"


def _wrap(packed: tuple[int, int, int]) -> Stream:
    stream_id, device_index, device_type = packed
    return Stream(
        stream_id=stream_id, device_index=device_index, device_type=device_type
    )


def current_stream(device: Device = None) -> Stream:
    """The calling thread's stream for a device, by default the current one."""
    _lazy_init()
    return _wrap(_C._getCurrentStream(_get_device_index(device, optional=True)))


def default_stream(device: Device = None) -> Stream:
    """The stream that a device has from the start."""
    _lazy_init()
    return _wrap(_C._getDefaultStream(_get_device_index(device, optional=True)))


def set_stream(stream: Stream | None) -> None:
    """Make a stream and its device current; ``None`` changes nothing.

    Prefer the context :func:`stream`, which changes back.
    """
    if stream is not None:
        _C._setStream(stream.stream_id, stream.device_index, stream.device_type)


def get_stream_from_external(data_ptr: int, device: Device = None) -> Stream:
    """A stream that was created with libopenreg, and stays its creator's.

    Args:
        data_ptr: the handle, an ``orStream_t``, as an int
        device: the stream's device, by default the current one
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    stream_id = _C._streamFromExternal(data_ptr, index)
    return _wrap((stream_id, index, _DEVICE_TYPE))


class StreamContext:
    """Context in which a stream and its device are current.

    Args:
        stream: the stream; ``None`` changes nothing
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        # A stack: a context may be entered again inside itself.
        self._before: list[list[Stream]] = []

    def __enter__(self) -> None:
        if self.stream is None:
            return
        before = [current_stream()]
        if self.stream.device != before[0].device:
            before.insert(0, current_stream(self.stream.device))
        set_stream(self.stream)
        self._before.append(before)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        if self.stream is None:
            return
        # The stream of this device last: setting it makes the device current.
        for stream in self._before.pop():
            set_stream(stream)


def stream(stream: Stream | None) -> StreamContext:
    """Context in which a stream and its device are current."""
    return StreamContext(stream)


def _sleep(cycles: int) -> None:
    """Keep the current stream busy for that many cycles of the device's clock."""
    _lazy_init()
    _C._sleep(cycles)
