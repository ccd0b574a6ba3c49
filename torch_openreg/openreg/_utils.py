"""Device arguments."""

from typing import Any

import torch

from torch_openreg import _C
from torch_openreg._device_name import A_NAME, NAME

from ._lazy import _lazy_init


def _get_device_index(
    device: Any, optional: bool = False, allow_cpu: bool = False
) -> int:
    """The index that a device argument names.

    An int is taken as it is. ``None`` and a device without an index name the
    current device if ``optional``, else they are errors. A CPU device is -1 if
    ``allow_cpu``.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != NAME:
            raise ValueError(f"Expected {A_NAME} device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        return _get_index_of_context(device)
    if not optional:
        raise ValueError(_needs_index(device))
    _lazy_init()
    return _C._getDevice()


def _get_index_of_context(device: Any) -> int:
    from ._device import _DeviceGuard  # which needs this file

    if not isinstance(device, _DeviceGuard):
        raise ValueError(_needs_index(device))
    return device.idx


def _needs_index(device: Any) -> str:
    return (
        "Expected a torch.device with a specified index or an integer, but "
        f"got:{device}"
    )
