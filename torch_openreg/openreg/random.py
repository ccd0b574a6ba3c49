"""Random numbers: the generator each device uses when none is given.

Seeding does not start the device, so it may be done before a fork. Where the
device cannot be used (there is none, or in a forked child) it does nothing.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from torch_openreg import _C

from ._device import current_device
from ._lazy import (
    _is_in_bad_fork,
    _lazy_init,
    device_count,
    is_available,
    is_initialized as is_initialized,  # torch.cuda.random has it too
)

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _index_of(device: int | str | torch.device) -> int:
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return _C._getDevice() if index is None else index


def _is_usable() -> bool:
    return not _is_in_bad_fork() and is_available()


def _make_default_generators() -> tuple[torch.Generator, ...]:
    return tuple(_C._getDefaultGenerator(i) for i in range(device_count()))


def _get_generator(device: torch.device) -> torch.Generator:
    """The generator that a device uses when none is given."""
    _lazy_init()
    return _C._getDefaultGenerator(_index_of(device))


def get_rng_state(device: int | str | torch.device = "openreg") -> Tensor:
    """The state of a device's generator, a byte tensor on the CPU."""
    _lazy_init()
    return _C._settledGenerator(_index_of(device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(
    new_state: Tensor, device: int | str | torch.device = "openreg"
) -> None:
    """Set the state of a device's generator to one that get_rng_state() gave."""
    if _is_usable():
        _C._settledGenerator(_index_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of the generators of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    seed = int(seed)
    if _is_usable():
        _C._settledGenerator(_C._getDevice()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    seed = int(seed)
    if _is_usable():
        for index in range(device_count()):
            _C._settledGenerator(index).manual_seed(seed)


def seed() -> None:
    """Seed the generator of the current device with an unpredictable number."""
    if _is_usable():
        _C._settledGenerator(_C._getDevice()).seed()


def seed_all() -> None:
    """Seed the generators of all devices with one unpredictable number."""
    if _is_usable():
        number = _C._settledGenerator(0).seed()
        for index in range(1, device_count()):
            _C._settledGenerator(index).manual_seed(number)


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _C._getDefaultGenerator(current_device()).initial_seed()
