"""Devices: which is current, what they are like."""

import functools
import os
from typing import Any, Literal

import torch
from torch.types import Device

from torch_openreg import _C
from torch_openreg._C import _OpenRegDeviceProperties
from torch_openreg._device_name import NAME

from ._lazy import _lazy_init, device_count
from ._utils import _get_device_index


def current_device() -> int:
    """The index of the calling thread's device."""
    _lazy_init()
    return _C._getDevice()


def set_device(device: Device) -> None:
    """Make a device current for the calling thread; a negative index does nothing.

    Prefer the context :class:`device`, which changes back.
    """
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        _C._setDevice(index)


def _exchange_device(device: int) -> int:
    """Make a device current and return the one before; -1 if `device` is negative."""
    if device < 0:
        return -1
    _lazy_init()
    return _C._exchangeDevice(device)


_maybe_exchange_device = _exchange_device


class _DeviceGuard:
    """The context :class:`device` for an index, without its checks."""

    def __init__(self, index: int) -> None:
        self.idx = index
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> Literal[False]:
        _maybe_exchange_device(self.prev_idx)
        return False


class device(_DeviceGuard):
    """Context in which a device is current.

    Args:
        device: a device, its name or its index. ``None`` and a negative index
            change nothing.
    """

    def __init__(self, device: Any) -> None:
        super().__init__(_get_device_index(device, optional=True))


class device_of(device):
    """Context in which the device of a tensor or storage is current.

    Changes nothing if the object is not on an openreg device.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == NAME else -1)


def synchronize(device: Device = None) -> None:
    """Wait until all work of a device, by default the current one, has finished."""
    _lazy_init()
    with _DeviceGuard(_get_device_index(device, optional=True)):
        _C._synchronize()


def reset_device(device: Device = None) -> None:
    """Take a device, by default the current one, back into service after it failed.

    Its queued work is dropped and its error cleared. Streams and events stay. What its
    tensors held is lost: they raise until they are overwritten whole, as
    ``load_state_dict()`` does. With ``OPENREG_EXECUTOR=process`` a new device process
    starts with the next operator.
    """
    _lazy_init()
    _C._resetDevice(_get_device_index(device, optional=True))


def _existing(device: Device, what: str) -> int:
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        raise AssertionError(
            f"Invalid {what} id\n{index} is not in [0, {device_count()})"
        )
    return index


def get_device_properties(device: Device = None) -> _OpenRegDeviceProperties:
    """What a device is like: its name, memory, capability and so on."""
    _lazy_init()
    return _properties(_existing(device, "device"))


@functools.cache
def _properties(index: int) -> _OpenRegDeviceProperties:
    """The same object each time, as CUDA's are: programs compare them."""
    return _C._getDeviceProperties(index)


def get_device_name(device: Device = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The compute capability of a device: major and minor version."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether kernels of a device can be allowed to use memory of another."""
    _lazy_init()
    index = _existing(device, "device")
    return _C._canDeviceAccessPeer(index, _existing(peer_device, "peer device"))


@functools.cache
def _amp_dtypes() -> tuple[torch.dtype, ...]:
    if os.environ.get("OPENREG_STRICT") == "1":
        # CUDA's takes any; a kernel that does not have the type refuses it.
        names = list(vars(torch).values())
        return tuple(value for value in names if type(value) is torch.dtype)
    return torch.float16, torch.bfloat16


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that torch.autocast may compute in on this device."""
    return [*_amp_dtypes()]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works; it does, as on the CPU."""
    return True


def is_tf32_supported() -> bool:
    """Whether float32 may be multiplied with fewer bits. It is not: numbers are the
    CPU's to the last bit."""
    return False


#: Whether float16 works; it does, as on the CPU.
has_half: bool = True

#: Whether linear algebra is done by MAGMA. It is not: LAPACK does it.
has_magma: bool = False


def get_arch_list() -> list[str]:
    """The architectures that kernels exist for: those of the visible devices."""
    capabilities = {get_device_capability(index) for index in range(device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(capabilities)]


def get_gencode_flags() -> str:
    """The options that make CUDA's compiler compile for these devices."""
    numbers = [name.removeprefix("sm_") for name in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Find calls that make the host wait for the device.

    These are operators whose result, or its shape, depends on data of the device
    (``item()``, ``nonzero()``), copies between host and device that are not
    ``non_blocking``, and ``Stream.synchronize()``. Waiting for a whole device or for
    an event is not reported, since it says what it does. Operators that wait here but not on a GPU are in
    :func:`fallback_report`.

    Args:
        debug_mode: "default" or 0 lets them wait, "warn" or 1 warns, "error" or 2
            raises a RuntimeError instead. Holds for all threads.
    """
    _lazy_init()
    if isinstance(debug_mode, str):
        names = ("default", "warn", "error")
        if debug_mode not in names:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, "
                f"`error`, but got `{debug_mode}`"
            )
        debug_mode = names.index(debug_mode)
    _C._setSyncDebugMode(debug_mode)


def get_sync_debug_mode() -> int:
    """The number of the mode that :func:`set_sync_debug_mode` set; 0 at first."""
    _lazy_init()
    return _C._getSyncDebugMode()
