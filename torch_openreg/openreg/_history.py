"""Memory: where it was allocated, what happened to it, and pools of one's own."""

import contextlib
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch.types import Device

from torch_openreg import _C

from ._lazy import _lazy_init, device_count
from ._utils import _get_device_index


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
    global_record_annotations: bool = False,
) -> None:
    """Record where memory is allocated, for :func:`_snapshot`.

    Args:
        enabled: None records nothing, "state" what is allocated, "all" also a
            history of what was allocated and freed
        context: what to keep stacks for: None nothing, "state" memory that is
            allocated, "alloc" also allocations in the history, "all" also frees
        stacks: frames of Python, or of C++ too
        max_entries: how long the history may get
        device: accepted because torch.cuda accepts it; all devices are recorded
        clear_history: forget what was recorded before
        global_record_annotations: record what :func:`torch.profiler.record_function`
            names on all threads, not only on this one
    """
    _lazy_init()
    _C._recordHistory(enabled, context, stacks, max_entries, clear_history)
    _C._recordAnnotations(
        enabled is not None, max_entries, clear_history, global_record_annotations
    )


def memory_snapshot(
    mempool_id: tuple[int, int] | None = None, include_traces: bool = True
) -> list[dict[str, Any]]:
    """The segments of all devices and the blocks in them, by address.

    Args:
        mempool_id: those of one :class:`MemPool` only
        include_traces: accepted because torch.cuda accepts it
    """
    _lazy_init()
    return _C._memorySnapshot(mempool_id or (0, 0), False)["segments"]


def _snapshot(device: Device = None) -> dict[str, Any]:
    """The state of the memory and its history, as torch.cuda.memory._snapshot()
    tells them; pytorch.org/memory_viz and torch.cuda._memory_viz show it."""
    _lazy_init()
    snapshot = _C._memorySnapshot((0, 0), True)
    settings = torch._C._accelerator_getAllocatorSettings()
    snapshot["allocator_settings"]["PYTORCH_ALLOC_CONF"] = settings
    snapshot["external_annotations"] = _C._memoryAnnotations()
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write :func:`_snapshot` to a file."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def attach_out_of_memory_observer(
    observer: Callable[[int, int, int, int], None],
) -> None:
    """Have ``observer(device, alloc, device_allowed, device_free)`` called whenever
    an allocation fails, before the error is raised. It stays for good."""
    _lazy_init()
    _C._observeOutOfMemory(observer)


def _functions_of(allocator: Any) -> tuple[int, ...]:
    """The addresses of an allocator's two functions; none for the device's own."""
    functions = () if allocator is None else allocator
    are_addresses = isinstance(functions, (list, tuple)) and all(
        isinstance(function, int) for function in functions
    )
    if not are_addresses or len(functions) not in (0, 2):
        raise TypeError(
            "allocator must be what allocator() of an OpenRegPluggableAllocator "
            f"returns, or None for the device's own, but got {allocator!r}"
        )
    return tuple(functions)


class MemPool:
    """A private pool of memory, for use with :func:`use_mem_pool`.

    Args:
        allocator: where its segments come from, as
            :meth:`OpenRegPluggableAllocator.allocator` returns it; None: the device
        use_on_oom: let other allocations use it before they fail
        no_split: hand out its segments whole
    """

    def __init__(
        self,
        allocator: Sequence[int] | None = None,
        use_on_oom: bool = False,
        no_split: bool = False,
    ) -> None:
        functions = _functions_of(allocator)
        _lazy_init()
        self.allocator = allocator
        self.id = _C._graphPoolHandle()
        for device in range(device_count()):
            _C._retainPool(device, self.id, use_on_oom, not no_split)
            if functions:
                _C._plugPool(device, self.id, *functions)

    def use_count(self) -> int:
        """How many hold it: this object, and contexts it is used in."""
        return max(_C._poolUsers(i, self.id) for i in range(device_count()))

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Its segments, as :func:`memory_snapshot` describes them."""
        return memory_snapshot(self.id, include_traces)

    def __del__(self) -> None:
        # Without an id it was never made.
        for device in range(device_count()) if hasattr(self, "id") else ():
            _C._releasePool(device, self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Allocate from a pool, on this thread and one device, by default the current."""
    index = _get_device_index(device, optional=True)
    _C._beginAllocateToPool(index, pool.id)
    try:
        yield
    finally:
        _C._endAllocateToPool(index, pool.id)
