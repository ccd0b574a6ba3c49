"""How Dynamo traces functions of torch.openreg, which end in code it cannot read."""

import contextlib
from typing import Any

import torch
from torch._dynamo import graph_break
from torch._dynamo.eval_frame import skip_code

from torch_openreg import openreg
from torch_openreg.openreg._lazy import _lazy_init

from . import device_context

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

WAY_OUT = (
    "the current device is changed in a way that Dynamo does not trace: change it "
    "outside of what is compiled, or use `with torch.openreg.device(1):`"
)

_index = openreg._utils._get_device_index


# docs:begin substitutes
def current_device() -> int:
    return torch.accelerator.current_device_index()


def current_stream(device: Any = None) -> torch.Stream:
    if device_context.is_entered():
        graph_break(msg="Dynamo knows the current stream of one device only")
    if device is None:
        return torch.accelerator.current_stream()
    return torch.accelerator.current_stream(torch.device("openreg", _index(device)))


def stream(stream: Any) -> Any:
    return contextlib.nullcontext() if stream is None else stream


def synchronize(device: Any = None) -> None:
    index = current_device() if device is None else _index(device)
    torch.accelerator.synchronize(torch.device("openreg", index))


def set_device(device: Any) -> None:
    graph_break(msg=WAY_OUT)


def _exchange_device(device: int) -> int:
    graph_break(msg=WAY_OUT)
    return device


SUBSTITUTES = (
    *(current_device, current_stream, stream, synchronize),
    *(set_device, _exchange_device),
)


def install() -> None:
    """Have Dynamo trace these in the place of the functions of the same name. It
    knows what torch.accelerator does, and guards it where the answer may change."""
    device_context.install()
    for function in (*CONSTANT, device_context.is_entered):
        torch.compiler.assume_constant_result(function)
    for substitute in SUBSTITUTES:
        original = getattr(openreg, substitute.__name__)
        torch.compiler.substitute_in_graph(original)(substitute)
    for called in (_index, _lazy_init):  # not compiled where their caller is not
        skip_code(called.__code__)


# docs:end substitutes
