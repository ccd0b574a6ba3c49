"""How Dynamo traces functions of torch.openreg, which end in code it cannot read."""

import contextlib
from typing import Any

import torch

from torch_openreg import openreg

# Functions of torch.openreg whose answer never changes while a program runs.
CONSTANT = (
    openreg.can_device_access_peer,
    openreg.device_count,
    openreg.get_arch_list,
    openreg.get_device_capability,
    openreg.get_device_name,
    openreg.get_device_properties,
    openreg.is_available,
    openreg.is_bf16_supported,
    openreg.is_tf32_supported,
)


_index = openreg._utils._get_device_index


# docs:begin substitutes
def current_device() -> int:
    return torch.accelerator.current_device_index()


def current_stream(device: Any = None) -> torch.Stream:
    if device is None:
        return torch.accelerator.current_stream()
    return torch.accelerator.current_stream(torch.device("openreg", _index(device)))


def stream(stream: Any) -> Any:
    return contextlib.nullcontext() if stream is None else stream


def synchronize(device: Any = None) -> None:
    if device is None:
        torch.accelerator.synchronize()
    else:
        torch.accelerator.synchronize(torch.device("openreg", _index(device)))


def install() -> None:
    """Have Dynamo trace these in the place of the functions of the same name. It
    knows what torch.accelerator does, and guards it where the answer may change."""
    for function in CONSTANT:
        torch.compiler.assume_constant_result(function)
    for substitute in (current_device, current_stream, stream, synchronize):
        original = getattr(openreg, substitute.__name__)
        torch.compiler.substitute_in_graph(original)(substitute)


# docs:end substitutes
