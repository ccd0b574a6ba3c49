"""Memory: what the caching allocator holds.

Figures are in bytes unless they count something. A process that has not used the
device has none, and every figure is then 0.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch.types import Device
from typing_extensions import deprecated

from torch_openreg import _C
from torch_openreg._device_name import NAME

from . import _summary
from ._device import device as _device_context
from ._history import (
    MemPool,
    _dump_snapshot,
    _record_memory_history,
    _snapshot,
    attach_out_of_memory_observer,
    memory_snapshot,
    use_mem_pool,
)
from ._lazy import _lazy_init, is_initialized
from ._pluggable import (
    OpenRegPluggableAllocator,
    _get_current_allocator,
    change_current_allocator,
)
from ._usage import list_gpu_processes
from ._utils import _get_device_index
from .streams import ExternalStream, Stream
from .streams import stream as _stream_context

__all__ = [
    "MemPool",
    "OpenRegPluggableAllocator",
    "OutOfMemoryError",
    "_dump_snapshot",
    "_get_current_allocator",
    "_record_memory_history",
    "_set_allocator_settings",
    "_snapshot",
    "attach_out_of_memory_observer",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "change_current_allocator",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]

OutOfMemoryError = torch.OutOfMemoryError

# What caching_allocator_alloc() gave out, by address.
_raw: dict[int, torch.UntypedStorage] = {}


def caching_allocator_alloc(
    size: int, device: Device = None, stream: Stream | int | None = None
) -> int:
    """Take memory of a device for work of a stream, and return its address.

    For programs that share the device with torch. The stream is by default the
    current one; a handle, an int, will do. Nothing but
    :func:`caching_allocator_delete` gives the memory back.
    """
    with _device_context(device):
        if isinstance(stream, int):
            stream = ExternalStream(stream)
        elif not isinstance(stream, Stream | None):
            raise TypeError(
                "Invalid type for stream argument, must be `torch.openreg.Stream` or "
                "`int` representing a pointer to an existing stream"
            )
        with _stream_context(stream):
            storage = torch.UntypedStorage(size, device=NAME)
    address = storage.data_ptr()
    if address:
        _raw[address] = storage
    return address


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back memory that :func:`caching_allocator_alloc` gave."""
    # Or that a pool of graphs, restored to an earlier state, allocated for nobody.
    if mem_ptr and _raw.pop(mem_ptr, None) is None and not _C._freeUnowned(mem_ptr):
        raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")


def caching_allocator_enable(value: bool = True) -> None:
    """Keep freed memory for later allocations, as at first, or not.

    Without the cache each allocation asks the device and each free waits for it, and
    the figures leave that memory out. Does nothing before the first use of the
    device.
    """
    if is_initialized():
        _C._enableCaching(value)


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Context in which freed memory is not kept; for all threads."""
    before = _C._cachingEnabled()
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def get_allocator_backend() -> str:
    """The kind of allocator, in CUDA's words: "native", PyTorch's caching one, or
    "pluggable"."""
    return "pluggable" if _C._isPlugged() else "native"


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limit what this process may allocate to a part, from 0 to 1, of a device's
    memory. Beyond it an allocation fails as if there were no more."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _lazy_init()
    _C._setMemoryFraction(fraction, _get_device_index(device, optional=True))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The part that :func:`set_per_process_memory_fraction` set; 1 at first."""
    _lazy_init()
    return _C._memoryFraction(_get_device_index(device, optional=True))


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
    ``"num_ooms"``. ``"reserved_bytes_by_private_pools.0_1.all.current"`` is about the
    pool whose ``MemPool.id`` is ``(0, 1)``.
    """

    return OrderedDict(sorted(_flat("", memory_stats_as_nested_dict(device))))


def _flat(prefix: str, figures: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in figures.items():
        if isinstance(key, tuple):
            key = "_".join(map(str, key))
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The figures of a device as a table to print.

    Args:
        device: by default the current one
        abbreviated: leave out the figures of the single pools
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return _summary.summary(memory_stats(index), index, abbreviated)


def memory_allocated(device: Device = None) -> int:
    """How much memory tensors of a device hold."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most that tensors held since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """How much memory of a device the allocator holds, for tensors and cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most the allocator held since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Reset the peaks to what is in use now."""
    _C._resetPeakStats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let the sums and the counters start again from 0."""
    _C._resetAccumulatedStats(_get_device_index(device, optional=True))


@deprecated(
    "`torch.openreg.memory_cached` has been renamed to `torch.openreg.memory_reserved`",
    category=FutureWarning,
)
def memory_cached(device: Device = None) -> int:
    """The old name of :func:`memory_reserved`."""
    return memory_reserved(device)


@deprecated(
    "`torch.openreg.max_memory_cached` has been renamed to "
    "`torch.openreg.max_memory_reserved`",
    category=FutureWarning,
)
def max_memory_cached(device: Device = None) -> int:
    """The old name of :func:`max_memory_reserved`."""
    return max_memory_reserved(device)


@deprecated(
    "`torch.openreg.reset_max_memory_allocated` now calls "
    "`torch.openreg.reset_peak_memory_stats`, which resets all peaks",
    category=FutureWarning,
)
def reset_max_memory_allocated(device: Device = None) -> None:
    """An old way to call :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


@deprecated(
    "`torch.openreg.reset_max_memory_cached` now calls "
    "`torch.openreg.reset_peak_memory_stats`, which resets all peaks",
    category=FutureWarning,
)
def reset_max_memory_cached(device: Device = None) -> None:
    """An old way to call :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """The free and the total memory of a device."""
    _lazy_init()
    return _C._memGetInfo(_get_device_index(device, optional=True))


def _set_allocator_settings(env: str) -> None:
    """Set what PYTORCH_ALLOC_CONF would, in a running program."""
    torch._C._accelerator_setAllocatorSettings(env)
    _C._reloadAllocatorConfig()


# --- pinned memory ------------------------------------------------------------


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """What :func:`host_memory_stats` returns, as dictionaries inside one another."""
    return _C._hostMemoryStats() if is_initialized() else {}


def host_memory_stats() -> dict[str, Any]:
    """The figures of the allocator of pinned memory, under the keys CUDA's have."""
    return OrderedDict(sorted(_flat("", host_memory_stats_as_nested_dict())))


def reset_peak_host_memory_stats() -> None:
    """Let the peaks of :func:`host_memory_stats` start at what is in use now."""
    _lazy_init()
    _C._resetPeakHostStats()


def reset_accumulated_host_memory_stats() -> None:
    """Set the sums of :func:`host_memory_stats` to 0."""
    _lazy_init()
    _C._resetAccumulatedHostStats()


def empty_host_cache() -> None:
    """Give cached pinned memory that no tensor uses back to the system."""
    if is_initialized():
        _C._emptyHostCache()
