"""``torch.distributed`` in CUDA's place: its groups of NCCL and of Gloo."""

from __future__ import annotations  # torch is not all there when this is loaded

import zlib
from typing import TYPE_CHECKING, Any

import torch

from . import _classes, _libraries, _refusals

if TYPE_CHECKING:
    from torch.distributed import Backend, ProcessGroup


def install() -> None:
    """After torch.distributed was imported."""
    from torch.distributed import distributed_c10d

    _install_nccl(distributed_c10d)
    _install_gloo(distributed_c10d)


# --- NCCL ---------------------------------------------------------------------


def _install_nccl(c10d: Any) -> None:
    """torch.distributed makes a ProcessGroupNCCL for "nccl"; it gets ours."""
    from torch.distributed import constants

    from torch_openreg.distributed import ProcessGroupOCCL, _dump_fr_trace

    internal = torch._C._distributed_c10d
    for module in (internal, c10d, torch.distributed):
        module.ProcessGroupNCCL = ProcessGroupOCCL
    internal._dump_nccl_trace = _dump_fr_trace
    internal._hash_tensors = _hash_tensors
    c10d._NCCL_AVAILABLE = True
    c10d.default_pg_nccl_timeout = constants.default_pg_timeout
    c10d.__all__ += ["ProcessGroupNCCL"]
    # Ranks read each other's memory wherever it comes from.
    ProcessGroupOCCL.mem_allocator = property(lambda self: _any_memory())
    for name in ("register_mem_pool", "deregister_mem_pool"):
        setattr(ProcessGroupOCCL, name, _register_pool)
    for name in ("get_build_nccl_version", "get_runtime_nccl_version"):
        setattr(ProcessGroupOCCL, name, staticmethod(lambda: _libraries.NCCL_VERSION))
    ProcessGroupOCCL._comm_ptr = _refusals.refuse(
        "a handle of NCCL",
        "no such library is behind it. Use torch.distributed's own functions",
    )


def _hash_tensors(tensors: list[torch.Tensor]) -> int:
    """For what TORCH_DISTRIBUTED_DEBUG=DETAIL logs of an object that is sent."""
    value = 0
    for tensor in tensors:
        value = zlib.crc32(tensor.cpu().numpy(), value)
    return value


def _any_memory() -> _classes._cuda_CUDAAllocator:
    return _classes._cuda_CUDAAllocator()


def _register_pool(self: Any, pool: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing to do: NCCL tells a network adapter of a pool, and there is none here."""


def install_symmetric_memory() -> None:
    """Its memory comes from a pool for CUDA alone. occl has a store of its own for it,
    and takes nothing of the pool."""
    memory = torch._C._distributed_c10d._SymmetricMemory
    memory.get_mempool_allocator = staticmethod(lambda device: _any_memory())


# --- RPC ----------------------------------------------------------------------


def refuse_device_maps() -> None:
    """With one, this build's TensorPipe ends the process when it meets a tensor."""
    from torch.distributed.rpc import options

    options._to_device_map = _refusals.refuse(
        "a device map of torch.distributed.rpc",
        "send tensor.cpu(), and move it to a device where it arrives",
    )


# --- Gloo ---------------------------------------------------------------------


def _install_gloo(c10d: Any) -> None:
    """Gloo takes tensors of CUDA in a build for CUDA. In this one it would read their
    memory as the host's, so a group of occl serves them beside it."""
    group = c10d.ProcessGroup
    register = group._register_backend

    def register_backend(
        self: ProcessGroup,
        device: torch.device,
        backend_type: ProcessGroup.BackendType,
        backend: Backend | None = None,
    ) -> None:
        if device.type == "cuda" and backend_type == group.BackendType.GLOO:
            backend_type = group.BackendType.CUSTOM
            backend = _beside_gloo(self, backend)
        register(self, device, backend_type, backend)

    group._register_backend = register_backend


def _beside_gloo(group: ProcessGroup, gloo: Any) -> Backend:
    from torch_openreg.distributed import ProcessGroupOCCL

    options = ProcessGroupOCCL.Options()
    options._timeout = gloo.options._timeout
    options.global_ranks_in_group = gloo.options.global_ranks_in_group
    options.group_name = gloo.options.group_name
    store = torch.distributed.PrefixStore("cuda", group.get_group_store())
    return ProcessGroupOCCL(store, gloo.rank(), gloo.size(), options)
