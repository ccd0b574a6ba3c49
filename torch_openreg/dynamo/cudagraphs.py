"""torch.compile(backend="cudagraphs"): Dynamo's own backend, on the device.

Loaded with that backend's module, which Dynamo imports when it looks for any; Inductor
comes in when a graph with tensors of the device is recorded.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends import cudagraphs

from torch_openreg import _names
from torch_openreg._device_name import NAME


def _is_ours(device: torch.device) -> bool:
    return device.type == NAME


def _check(original: Callable[..., Any]) -> Callable[..., Any]:
    def check(nodes: dict[torch.device, Any]) -> str | None:
        if not any(map(_is_ours, nodes)):
            return original(nodes)
        from torch_openreg.inductor._recordable import ask_as_cuda

        return ask_as_cuda(original, nodes, _is_ours)

    return check


def _index(original: Callable[..., int]) -> Callable[..., int]:
    def get_device_index(gm: torch.fx.GraphModule) -> int:
        device = next(iter(cudagraphs.get_device_node_mapping(gm)))
        if not _is_ours(device):
            return original(gm)
        from torch_openreg.inductor._trees import OpenRegIndex

        return OpenRegIndex(device.index)

    return get_device_index


def install() -> None:
    _names.replace(cudagraphs, "check_multiple_devices_or_any_cpu_nodes", _check)
    _names.replace(cudagraphs, "get_device_index", _index)
