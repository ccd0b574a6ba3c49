"""Devices: which is current, what they are like."""

from typing import Any

import torch
from torch.types import Device

from torch_openreg import _C
from torch_openreg._C import _OpenRegDeviceProperties

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

    def __init__(self, index: int):
        self.idx = index
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        _maybe_exchange_device(self.prev_idx)
        return False


class device(_DeviceGuard):
    """Context in which a device is current.

    Args:
        device: a device, its name or its index. ``None`` and a negative index
            change nothing.
    """

    def __init__(self, device: Any):
        super().__init__(_get_device_index(device, optional=True))


class device_of(device):
    """Context in which the device of a tensor or storage is current.

    Changes nothing if the object is not on an openreg device.
    """

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_openreg else -1)


def synchronize(device: Device = None) -> None:
    """Wait until all work of a device, by default the current one, has finished."""
    _lazy_init()
    with _DeviceGuard(_get_device_index(device, optional=True)):
        _C._synchronize()


def reset_device(device: Device = None) -> None:
    """Take a device, by default the current one, back into service after it failed.

    Its queued work is dropped and its error cleared. Tensors, streams and events stay,
    but what the device's tensors held is lost: they read as zero. With
    ``OPENREG_EXECUTOR=process`` a new device process starts with the next operator.
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
    return _C._getDeviceProperties(_existing(device, "device"))


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


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that torch.autocast may compute in on this device."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works; it does, as on the CPU."""
    return True
