"""What events can do, under torch.openreg.Event and torch.cuda.Event.

CUDA's classes are made when torch._C is there and the rest of torch is not yet.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import Event, Stream

from torch_openreg import _C, _creation

from ._device_name import NAME


def _module() -> Any:
    return getattr(torch, NAME)


def _checked(stream: Any) -> Stream:
    if not isinstance(stream, Stream):
        raise RuntimeError(
            f"expected stream to be a torch.Stream or torch.{NAME}.Stream object, but "
            f"got {type(stream).__name__}"
        )
    return stream


class EventBase(Event):
    """An event of the device, which knows other processes and captures."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Any:
        event = super().__new__(
            cls, NAME, enable_timing=enable_timing, blocking=blocking
        )
        event._interprocess = interprocess
        event._timed = enable_timing
        event._external = external
        _creation.note("event", event)
        return event

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Any:
        """Open an event of another process, on a device of this one."""
        _module()._lazy_init()
        index = _module()._utils._get_device_index(device, optional=True)
        event = cls(interprocess=True)
        _C._openSharedEvent(event, index, handle)
        return event

    def ipc_handle(self) -> bytes:
        """Bytes from which another process opens this event.

        An event that was not recorded yet takes the current device. Its process
        must live until it is opened; an event that was opened has no handle.
        """
        _module()._lazy_init()
        self._create_shared(_C._getDevice())
        return _C._shareEvent(self)

    def _create_shared(self, device: int) -> None:
        if self._interprocess and not self.event_id:
            _C._createSharedEvent(self, device, self._timed)

    @property
    def device(self) -> torch.device | None:
        """The device it was recorded on; None before."""
        return super().device if self.event_id else None

    def record(self, stream: Stream) -> None:
        """Stand for all work queued in a stream."""
        where = _checked(stream)
        self._create_shared(where.device_index)
        if self._external and where.is_capturing():
            place = where.stream_id, where.device_index
            _C._recordExternalEvent(self, *place, self._timed)
        else:
            super().record(where)

    def wait(self, stream: Stream) -> None:
        """Let later work of a stream wait for this."""
        where = _checked(stream)
        if self._external and self.event_id and where.is_capturing():
            _C._waitForExternalEvent(self, where.stream_id, where.device_index)
        else:
            super().wait(where)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another, both timed and finished."""
        return _C._elapsedTime(self, end_event)
