"""Memory: what the caching allocator holds.

Figures are in bytes unless they count something. A process that has not used the
device has none, and every figure is then 0.
"""

from collections import OrderedDict
from typing import Any

import torch
from torch.types import Device

from torch_openreg import _C

from ._lazy import _lazy_init, is_initialized
from ._utils import _get_device_index

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]

OutOfMemoryError = torch.OutOfMemoryError


def empty_cache() -> None:
    """Give cached memory that no tensor uses back to the device."""
    if is_initialized():
        _C._emptyCache()


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """What :func:`memory_stats` returns, as dictionaries inside one another."""
    if not is_initialized():
        return {}
    return _C._memoryStats(_get_device_index(device, optional=True))


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The allocator's figures for a device, under the keys CUDA's have.

    A key is ``"<figure>.<pool>.<kind>"``, for instance
    ``"allocated_bytes.all.peak"``, or the name of a plain counter, for instance
    ``"num_ooms"``.
    """

    def flat(prefix, figures):
        for key, value in figures.items():
            if isinstance(value, dict):
                yield from flat(f"{prefix}{key}.", value)
            else:
                yield f"{prefix}{key}", value

    return OrderedDict(sorted(flat("", memory_stats_as_nested_dict(device))))


def memory_allocated(device: Device = None) -> int:
    """How much memory tensors of a device hold."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most they held since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """How much memory of a device the allocator holds, for tensors and cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most it held since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let the peaks start again from what is in use now."""
    _C._resetPeakStats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let the sums and the counters start again from 0."""
    _C._resetAccumulatedStats(_get_device_index(device, optional=True))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """The free and the total memory of a device."""
    _lazy_init()
    return _C._memGetInfo(_get_device_index(device, optional=True))
