"""``torch.openreg``: what ``torch.cuda`` is for CUDA.

The names, signatures and defaults are those of ``torch.cuda``, so that
``torch.get_device_module("openreg")`` can stand in for it. The device starts with
its first use.
"""

import torch

from . import _lazy, amp, memory, random, streams
from . import meta as meta
from . import _utils as _utils
from . import _vmap as _vmap
from ._device import (
    _DeviceGuard as _DeviceGuard,
    _exchange_device as _exchange_device,
    _maybe_exchange_device as _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_bf16_supported,
    reset_device,
    set_device,
    synchronize,
)
from ._lazy import (
    _is_in_bad_fork as _is_in_bad_fork,
    _lazy_init as _lazy_init,
    device_count,
    init,
    is_available,
    is_initialized,
)
from .fallback import fallback_report, reset_fallback_report
from .memory import (
    MemPool,
    OutOfMemoryError,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from .random import (
    _get_generator as _get_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    _sleep as _sleep,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

AcceleratorError = torch.AcceleratorError

__all__ = [
    "AcceleratorError",
    "Event",
    "ExternalStream",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_report",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_device",
    "reset_fallback_report",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
    "use_mem_pool",
]


def __getattr__(name: str):
    """Names whose value changes while the program runs."""
    if name == "_initialized":
        return _lazy._initialized
    if name == "default_generators":
        # Kept from here on, so this is not called for it again.
        generators = random._make_default_generators()
        globals()[name] = generators
        return generators
    raise AttributeError(f"module 'torch.openreg' has no attribute '{name}'")
