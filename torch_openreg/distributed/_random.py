"""Random numbers in DTensors: which generator state each shard is filled from.

PyTorch's tracker moves an offset in a counter-based generator's state to where a shard
begins. The generator of an openreg device is the CPU's, a sequence that nobody can jump
in, so each shard gets a seed of its own. With OPENREG_RNG=philox PyTorch's tracker does.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import DispatchKey
from torch._prims.rng_prims import run_dtensor_rng_op
from torch.distributed.tensor import _random

from torch_openreg import _C, openreg
from torch_openreg._device_name import IS_CUDA, NAME

_MIX = 0x9E3779B1  # odd: shards have other seeds in the 32 bits that the CPU's uses


class _ShardSeeds(_random.OffsetBasedRNGTracker):
    """What is replicated has the numbers of one device, whose generator all ranks
    have. Shards have numbers of their own, and the generators of all ranks go on by one
    number: afterwards they are equal, as before."""

    @contextlib.contextmanager
    def _distribute_region(
        self,
        spec: _random.DTensorSpec,
        generator: torch.Generator | None = None,
    ) -> Iterator[None]:
        if self._device.type != NAME or not self.distribute_region_enabled:
            with super()._distribute_region(spec, generator):
                yield
            return
        own = openreg.default_generators[self._device.index]
        source = own if generator is None else generator
        index, count = self._place(spec)
        if count == 1:
            with self._lend(source, own):
                yield
            return
        with _numbers_of_shard(index, source, own):
            yield

    def _compute_rng_offsets(self, spec: _random.DTensorSpec) -> tuple[int, int]:
        """What _run_on_shard() is called with: in CUDA's place PyTorch asks for offsets,
        so that a compiled program has integers and no tracker."""
        return self._place(spec)

    def _place(self, spec: _random.DTensorSpec) -> tuple[int, int]:
        """The shard of this rank, and how many there are."""
        indices, counts = _random._calc_shard_info(spec.mesh.get_coordinate(), spec)
        index = self._calc_shard_linear_idx(indices, counts)
        return index, torch.Size(counts).numel()

    @contextlib.contextmanager
    def _lend(self, source: torch.Generator, own: torch.Generator) -> Iterator[None]:
        """Lets operators, which get no generator, draw from `source`."""
        if source is own:
            yield
            return
        with torch.random.fork_rng([self._device], device_type=NAME):
            own.set_state(source.get_state())
            yield
            source.set_state(own.get_state())


@contextlib.contextmanager
def _numbers_of_shard(
    index: int, source: torch.Generator, own: torch.Generator
) -> Iterator[None]:
    number = torch.empty((), dtype=torch.int64, device=source.device)
    seed = number.random_(generator=source).item() + index * _MIX
    with torch.random.fork_rng([own.device], device_type=NAME):
        own.manual_seed(seed % 2**63)
        yield


def _run_on_shard(
    index: int, count: int, op: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """In the place of run_dtensor_rng_op(): `op` on the tensor of a shard."""
    if count == 1:
        return op(*args, **kwargs)
    own = openreg.default_generators[args[0].device.index]
    with _numbers_of_shard(index, own, own):
        return op(*args, **kwargs)


def install() -> None:
    if _C._draws_philox:
        return
    _random.OffsetBasedRNGTracker = _ShardSeeds
    for key in (DispatchKey.CUDA, DispatchKey.BackendSelect) if IS_CUDA else ():
        run_dtensor_rng_op.py_kernels[key] = _run_on_shard
