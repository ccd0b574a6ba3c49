"""Random numbers in DTensors: which generator state each shard is filled from.

PyTorch's tracker moves an offset in a counter-based generator's state to where a shard
begins. The generator of an openreg device is the CPU's, a sequence that nobody can jump
in, so each shard gets a seed of its own. With OPENREG_RNG=philox PyTorch's tracker does.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch.distributed.tensor import _random

from torch_openreg import _C, openreg
from torch_openreg._device_name import NAME

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
        number = torch.empty((), dtype=torch.int64, device=source.device)
        seed = number.random_(generator=source).item() + index * _MIX
        with torch.random.fork_rng([self._device], device_type=NAME):
            own.manual_seed(seed % 2**63)
            yield

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


def install() -> None:
    if _C._draws_philox:
        return
    _random.OffsetBasedRNGTracker = _ShardSeeds
