"""The names of CUDA in ``torch._C``: what ``torch.cuda`` and others of PyTorch call.

A PyTorch without CUDA lacks them. They are set as soon as torch._C is loaded, before
anything has looked for them, so ``torch.cuda`` itself is PyTorch's own.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_openreg import _C

from . import _comm, _libraries, _refusals, _settings
from ._classes import (
    _cuda_CUDAAllocator,
    _CudaEventBase,
    _CUDAGraph,
    _CudaStreamBase,
    _MemPool,
)

_Pool = tuple[int, int]


def install() -> None:
    """Give torch._C the names of all tables."""
    for kind, name in (
        (_C._OpenRegDeviceProperties, "_CudaDeviceProperties"),
        (_C._OpenRegUuid, "_CUuuid"),
    ):
        kind.__name__, kind.__qualname__, kind.__module__ = name, name, "torch._C"
    owner = sys.modules["torch._C"]  # which torch does not have yet
    for table in (
        _DEVICE,
        _STREAMS,
        _MEMORY,
        _GRAPHS,
        _LIBRARIES,
        _comm.NAMES,
        _refusals.NAMES,
    ):
        for name, value in table.items():
            setattr(owner, name, value)


def _openreg() -> Any:
    """torch.openreg, under whatever name; it needs a torch that is all there."""
    from torch_openreg import openreg

    return openreg


# --- devices ------------------------------------------------------------------


def _cuda_init() -> None:
    """Start the device, and tell torch.cuda what it finds out no earlier."""
    _settings.translate()
    _openreg()._lazy_init()
    devices = range(_C._getDeviceCount())
    torch.cuda.default_generators = tuple(map(_C._getDefaultGenerator, devices))
    torch.cuda._get_device_properties = _openreg()._properties


def _cuda_getDeviceCount() -> int:
    _settings.translate()
    return _C._getDeviceCount()


def _cuda_isInBadFork() -> bool:
    _settings.translate()  # asking starts the device, which reads them
    return _C._isInBadFork()


def _cuda_getArchFlags() -> str:
    return " ".join(_openreg().get_arch_list())


def _cuda_exchangeDevice(device: int) -> int:
    return -1 if device < 0 else _C._exchangeDevice(device)


def _cuda_maybeExchangeDevice(device: int) -> int:  # Dynamo wants another function
    return _cuda_exchangeDevice(device)


def _cuda_setDevice(device: int) -> None:
    torch.cuda._lazy_init()
    _C._setDevice(device)


def _cuda_getDevice() -> int:
    torch.cuda._lazy_init()
    return _C._getDevice()


_DEVICE: dict[str, Any] = {
    "_has_cuda": True,
    "_CudaDeviceProperties": _C._OpenRegDeviceProperties,
    "_cuda_canDeviceAccessPeer": _C._canDeviceAccessPeer,
    "_cuda_exchangeDevice": _cuda_exchangeDevice,
    "_cuda_getArchFlags": _cuda_getArchFlags,
    "_cuda_getDevice": _cuda_getDevice,
    "_cuda_getDeviceCount": _cuda_getDeviceCount,
    "_cuda_get_sync_debug_mode": _C._getSyncDebugMode,
    "_cuda_hasPrimaryContext": _C._hasPrimaryContext,
    "_cuda_init": _cuda_init,
    "_cuda_ipc_collect": _C._ipcCollect,
    "_cuda_isInBadFork": _cuda_isInBadFork,
    "_cuda_maybeExchangeDevice": _cuda_maybeExchangeDevice,
    "_cuda_setDevice": _cuda_setDevice,
    "_cuda_set_sync_debug_mode": _C._setSyncDebugMode,
    "_cuda_synchronize": _C._synchronize,
}


# --- streams and events -------------------------------------------------------


def _cuda_getCurrentRawStream(device: int) -> int:
    stream_id, index, _ = _C._getCurrentStream(device)
    return _C._getStreamHandle(stream_id, index)


def _cuda_getStreamFromExternal(data_ptr: int, device: int) -> tuple[int, int, int]:
    _, _, device_type = _C._getDefaultStream(device)
    return _C._streamFromExternal(data_ptr, device), device, device_type


# docs:begin cuda-streams
_STREAMS: dict[str, Any] = {
    "_CudaEventBase": _CudaEventBase,
    "_CudaStreamBase": _CudaStreamBase,
    "_cuda_getCurrentRawStream": _cuda_getCurrentRawStream,
    "_cuda_getCurrentStream": _C._getCurrentStream,
    "_cuda_getDefaultStream": _C._getDefaultStream,
    "_cuda_getStreamFromExternal": _cuda_getStreamFromExternal,
    "_cuda_setStream": _C._setStream,
    "_cuda_sleep": _C._sleep,
}
# docs:end cuda-streams


# --- memory -------------------------------------------------------------------


#: Actions that snapshots leave out.
_skipped: set[str] = set()


def _cuda_memorySnapshot(pool: tuple[int, ...] | None) -> dict[str, Any]:
    """Of all pools with None and (0, 0); a third item says whether with history."""
    if pool is None:
        snapshot = _openreg().memory._snapshot()
        settings = snapshot["allocator_settings"]
        settings["PYTORCH_CUDA_ALLOC_CONF"] = settings["PYTORCH_ALLOC_CONF"]
    else:
        traces = bool(pool[2]) if len(pool) > 2 else True
        snapshot = _C._memorySnapshot((pool[0], pool[1]), traces)
    for trace in snapshot["device_traces"] if _skipped else ():
        trace[:] = [entry for entry in trace if entry["action"] not in _skipped]
    return snapshot


def _cuda_record_memory_history(
    enabled: str | None,
    context: str | None,
    stacks: str,
    max_entries: int,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Iterable[str] = (),
) -> None:
    """What the compiler was doing is not recorded."""
    _skipped.clear()
    _skipped.update(skip_actions)
    _openreg().memory._record_memory_history(
        enabled,
        context,
        stacks,
        max_entries,
        clear_history=clear_history,
        global_record_annotations=global_record_annotations,
    )


def _cuda_record_memory_history_legacy(
    enabled: bool,
    record_context: bool,
    record_context_cpp: bool,
    max_entries: int,
    record_context_of_trace: bool,
    *options: Any,
) -> None:
    context = "alloc" if record_context_of_trace else "state"
    _cuda_record_memory_history(
        "all" if enabled and max_entries > 1 else "state" if enabled else None,
        context if record_context else None,
        "all" if record_context_cpp else "python",
        max_entries,
        *options,
    )


def _cuda_allocationTraceback(pointer: int) -> list[dict[str, Any]] | None:
    for segment in _openreg().memory._snapshot()["segments"]:
        for block in segment["blocks"]:
            if block["address"] == pointer and block["state"] == "active_allocated":
                return block["frames"] or None
    return None


def _cuda_isHistoryEnabled() -> bool:
    return bool(_openreg().memory._snapshot()["device_traces"])


def _cuda_cudaCachingAllocator_raw_alloc(size: int, stream: int) -> int:
    return _openreg().caching_allocator_alloc(size, None, stream)


def _cuda_cudaCachingAllocator_raw_delete(pointer: int) -> None:
    _openreg().caching_allocator_delete(pointer)


def _cuda_changeCurrentAllocator(allocator: _cuda_CUDAAllocator) -> None:
    if _C._allocatorInitialized():
        raise RuntimeError("Can't swap an already initialized allocator")
    _C._plugAllocator(*allocator.functions)


def _cuda_releasePool(device: int, pool: _Pool) -> None:
    """_cuda_endAllocateToPool() did."""


_MEMORY: dict[str, Any] = {
    "_MemPool": _MemPool,
    "_cuda_CUDAAllocator": _cuda_CUDAAllocator,
    "_cuda_CUDAAllocator_AllocatorState": _C._PoolCheckpoint,
    "_cuda_allocationTraceback": _cuda_allocationTraceback,
    "_cuda_attach_out_of_memory_observer": _C._observeOutOfMemory,
    "_cuda_beginAllocateCurrentThreadToPool": _C._beginAllocateToPool,
    "_cuda_beginAllocateCurrentStreamToPool": _C._beginAllocateToPool,
    "_cuda_beginAllocateToPool": _C._beginAllocateToPool,
    "_cuda_changeCurrentAllocator": _cuda_changeCurrentAllocator,
    "_cuda_cudaCachingAllocator_enable": _C._enableCaching,
    "_cuda_cudaCachingAllocator_is_enabled": _C._cachingEnabled,
    "_cuda_cudaCachingAllocator_raw_alloc": _cuda_cudaCachingAllocator_raw_alloc,
    "_cuda_cudaCachingAllocator_raw_delete": _cuda_cudaCachingAllocator_raw_delete,
    "_cuda_customAllocator": _cuda_CUDAAllocator,
    "_cuda_emptyCache": _C._emptyCache,
    "_cuda_endAllocateToPool": _C._endAllocateToPool,
    "_cuda_getAllocator": _cuda_CUDAAllocator,
    "_cuda_getAllocatorBackend": lambda: _openreg().get_allocator_backend(),
    "_cuda_getMemoryFraction": _C._memoryFraction,
    "_cuda_hostMemoryStats": _C._hostMemoryStats,
    "_cuda_isHistoryEnabled": _cuda_isHistoryEnabled,
    "_cuda_memorySnapshot": _cuda_memorySnapshot,
    "_cuda_memoryStats": _C._memoryStats,
    "_cuda_record_memory_history": _cuda_record_memory_history,
    "_cuda_record_memory_history_legacy": _cuda_record_memory_history_legacy,
    "_cuda_releasePool": _cuda_releasePool,
    "_cuda_resetAccumulatedHostMemoryStats": _C._resetAccumulatedHostStats,
    "_cuda_resetAccumulatedMemoryStats": _C._resetAccumulatedStats,
    "_cuda_resetPeakHostMemoryStats": _C._resetPeakHostStats,
    "_cuda_resetPeakMemoryStats": _C._resetPeakStats,
    "_cuda_setMemoryFraction": _C._setMemoryFraction,
    "_host_emptyCache": _C._emptyHostCache,
}


# --- graphs -------------------------------------------------------------------


def _cuda_isCurrentStreamCapturing() -> bool:
    return torch.cuda.is_initialized() and _C._isCurrentStreamCapturing()


def _graph_pool_handle() -> _Pool:
    torch.cuda._lazy_init()
    return _C._graphPoolHandle()


def _of_trees(name: str) -> Callable[..., Any]:
    """What Inductor's trees of graphs call; see there."""

    def call(*args: Any) -> Any:
        from torch_openreg.inductor import _tree_functions

        return getattr(_tree_functions, name)(*args)

    return call


_GRAPHS: dict[str, Any] = {
    "_CUDAGraph": _CUDAGraph,
    "_construct_CUDA_Tensor_From_Storage_And_Metadata": _C._makeTensor,
    "_cuda_getCheckpointState": _C._getCheckpointState,
    "_cuda_isCurrentStreamCapturing": _cuda_isCurrentStreamCapturing,
    "_graph_pool_handle": _graph_pool_handle,
    "_tensors_data_ptrs_at_indices_equal": _C._pointersAreEqual,
    **{
        name: _of_trees(name)
        for name in (
            "_cuda_checkPoolLiveAllocations",
            "_cuda_setCheckpointPoolState",
            "_free_And_Remove_DeleterFn",
            "_has_Standard_Deleter",
            "_set_storage_access_error_msg",
            "_set_storage_data_ptr_access_error_msg",
        )
    },
}


# --- CUDA's libraries ---------------------------------------------------------

_LIBRARIES: dict[str, Any] = {
    "_cudart": _libraries.cudart,
    "_cudnn": _libraries.cudnn,
    "_has_cudnn": True,
    "_nvtx": _libraries.nvtx,
    **_libraries.switches(),
}
