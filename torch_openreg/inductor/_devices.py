"""Devices of openreg in the names that Inductor sees.

The index is the mark: ``torch.device("cpu")`` is not ``torch.device("cpu", 0)``, so
tensors that really are on the CPU are kept apart.
"""

import torch

from torch_openreg import openreg
from torch_openreg._device_name import NAME


def is_shadow(device: torch.device | None) -> bool:
    return device is not None and device.type == "cpu" and device.index is not None


def shadow_of(device: torch.device) -> torch.device:
    """``cpu:<index>`` for a device of openreg; any other one is itself."""
    if device.type != NAME:
        return device
    index = device.index
    return torch.device("cpu", openreg.current_device() if index is None else index)


def device_behind(device: torch.device) -> torch.device:
    """The device of openreg behind ``cpu:<index>``; any other one is itself."""
    return torch.device(NAME, device.index) if is_shadow(device) else device
