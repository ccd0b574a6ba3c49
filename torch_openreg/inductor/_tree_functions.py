"""What Inductor's trees of graphs call in ``torch._C``, by the same names."""

from collections.abc import Iterable
from typing import Any

import torch

from torch_openreg import _C, openreg

_Pool = tuple[int, int]

_construct_CUDA_Tensor_From_Storage_And_Metadata = _C._makeTensor
_tensors_data_ptrs_at_indices_equal = _C._pointersAreEqual

_cuda_getCheckpointState = _C._getCheckpointState
_cuda_beginAllocateCurrentThreadToPool = _C._beginAllocateToPool
_cuda_endAllocateToPool = _C._endAllocateToPool
_cuda_cudaCachingAllocator_raw_delete = openreg.caching_allocator_delete


def _storage(pointer: int) -> torch.UntypedStorage:
    return torch.UntypedStorage._new_with_weak_ptr(pointer)


def _free_And_Remove_DeleterFn(storage: int) -> None:
    _C._freeAndRemoveDeleter(_storage(storage))


def _has_Standard_Deleter(storage: int) -> bool:
    return _C._hasStandardDeleter(_storage(storage))


def _set_storage_access_error_msg(tensor: torch.Tensor, message: str) -> None:
    """The tensor keeps its storage, which is described next."""


def _set_storage_data_ptr_access_error_msg(storage: int, message: str) -> None:
    _C._refuseStorage(_storage(storage), message)


def _cuda_setCheckpointPoolState(
    device: int, state: Any, stale: Iterable[int], live: Iterable[int]
) -> None:
    _C._setCheckpointPoolState(
        device, state, [*map(_storage, stale)], [*map(_storage, live)]
    )


def _cuda_checkPoolLiveAllocations(
    device: int, pool: _Pool, expected: Iterable[int]
) -> bool:
    return set(_C._poolLiveAllocations(device, pool)) == set(expected)


def _cuda_releasePool(device: int, pool: _Pool) -> None:
    """_endAllocateToPool() did."""


def _cuda_isHistoryEnabled() -> bool:
    return bool(openreg.memory._snapshot()["device_traces"])


def _cuda_clearCublasWorkspaces() -> None:
    """A kernel's workspace is memory of the host."""


def _cuda_get_conv_benchmark_empty_cache() -> bool:
    """No convolution tries algorithms out."""
    return False


def _cudnn_set_conv_benchmark_empty_cache(enable: bool) -> None:
    """No convolution tries algorithms out."""
