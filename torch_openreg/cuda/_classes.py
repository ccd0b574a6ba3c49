"""The classes of ``torch._C`` that ``torch.cuda`` builds upon."""

from __future__ import annotations  # torch is not all there when this is loaded

from typing import Any

import torch
from torch._C import Stream

from torch_openreg import _C
from torch_openreg._events import EventBase

from . import _refusals


class _CudaStreamBase(Stream):
    """Under torch.cuda.Stream."""

    def __new__(
        cls, priority: int = 0, stream_ptr: int | None = None, **packed: int
    ) -> Any:
        torch.cuda._lazy_init()
        here = torch.device("cuda", _C._getDevice())
        if stream_ptr is not None:
            stream_id = _C._streamFromExternal(stream_ptr, here.index)
            packed = dict(zip(_PACKED, (stream_id, here.index, _cuda_type())))
        if packed:
            return super().__new__(cls, priority=priority, **packed)
        return super().__new__(cls, here, priority=priority)

    @property
    def cuda_stream(self) -> int:
        return _C._getStreamHandle(self.stream_id, self.device_index)

    @property
    def priority(self) -> int:
        return _C._getStreamPriority(self.stream_id, self.device_index)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return _C._getStreamPriorityRange()


_PACKED = ("stream_id", "device_index", "device_type")


def _cuda_type() -> int:
    return torch._C._autograd.DeviceType.CUDA.value


class _CudaEventBase(EventBase):
    """Under torch.cuda.Event."""

    @property
    def cuda_event(self) -> int:
        return self.event_id


class _CUDAGraph(_C._OpenRegGraph):
    """Under torch.cuda.CUDAGraph, which makes it in __new__."""

    def __init__(self, keep_graph: bool = False) -> None:
        torch.cuda._lazy_init()
        super().__init__(keep_graph)

    begin_capture_to_if_node = staticmethod(_refusals.CONDITIONAL_NODE)
    end_capture_to_conditional_node = begin_capture_to_if_node
    get_currently_capturing_graph = begin_capture_to_if_node

    def raw_cuda_graph(self) -> int:
        return self.raw_openreg_graph()

    def raw_cuda_graph_exec(self) -> int:
        return self.raw_openreg_graph_exec()


class _MemPool:
    """Under torch.cuda.MemPool."""

    def __init__(
        self,
        allocator: _cuda_CUDAAllocator | None = None,
        is_user_created: bool = True,
        use_on_oom: bool = False,
        no_split: bool = False,
    ) -> None:
        torch.cuda._lazy_init()
        self._allocator = allocator
        self._id = _C._graphPoolHandle()
        for device in range(_C._getDeviceCount()):
            _C._retainPool(device, self._id, use_on_oom, not no_split)
            if allocator is not None and allocator.functions:
                _C._plugPool(device, self._id, *allocator.functions)

    @property
    def id(self) -> tuple[int, int]:
        return self._id

    @property
    def allocator(self) -> _cuda_CUDAAllocator | None:
        return self._allocator

    def use_count(self) -> int:
        return max(_C._poolUsers(i, self._id) for i in range(_C._getDeviceCount()))

    def __del__(self) -> None:
        for device in range(_C._getDeviceCount()) if hasattr(self, "_id") else ():
            _C._releasePool(device, self._id)


class _cuda_CUDAAllocator:
    """Functions of a program that allocate; none for the device's own allocator."""

    def __init__(self, *functions: int) -> None:
        self.functions = functions
