"""AOTInductor: a model of the device, compiled ahead of time for the CPU.

A package holds a library with kernels, their order and the constants, which calls the
CPU's operators by itself. So the model is moved to the CPU before it is compiled, and
the package says that it was ours: torch_openreg/packages.py runs it on the device.
"""

import copy
import json
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import compile_fx
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_any, tree_map

from torch_openreg import _names
from torch_openreg._device_name import NAME
from torch_openreg.packages import OUTPUT_DEVICES


def _is_ours(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.device.type == NAME
    return isinstance(value, torch.device) and value.type == NAME


def _to_cpu(value: Any) -> Any:
    if not _is_ours(value):
        return value
    return value.to("cpu") if isinstance(value, torch.Tensor) else torch.device("cpu")


def _move(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph with all that is in it on the CPU."""
    moved = copy.deepcopy(gm).to("cpu")
    for module in moved.modules():
        for name, value in [*vars(module).items()]:
            if isinstance(value, torch.Tensor):
                setattr(module, name, _to_cpu(value))
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.args = map_aggregate(node.args, _to_cpu)
                node.kwargs = map_aggregate(node.kwargs, _to_cpu)
                if "val" in node.meta:
                    node.meta["val"] = tree_map(_to_cpu, node.meta["val"])
            module.recompile()
    return moved


def _devices(values: Any) -> list[str]:
    return tree_map(
        lambda value: value.device.type if isinstance(value, torch.Tensor) else "",
        [*values],
    )


def _compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx_aot(
        model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any
    ) -> Any:
        nodes = [*model_.graph.nodes]
        values = [node.meta.get("val") for node in nodes]
        if not tree_any(_is_ours, [values, example_inputs_, *model_.parameters()]):
            return original(model_, example_inputs_, *args, **kwargs)
        if "cpu" in _devices(example_inputs_):
            raise RuntimeError(
                "AOTInductor on openreg: an input is on the CPU and others are on the "
                "device; move all inputs to one device before torch.export.export()"
            )
        outputs = [
            node.meta.get("val") if isinstance(node, torch.fx.Node) else node
            for node in nodes[-1].args[0]
        ]
        patches = dict(kwargs.pop("config_patches", None) or {})
        patches["aot_inductor.metadata"] = {
            **patches.get("aot_inductor.metadata", {}),
            OUTPUT_DEVICES: json.dumps(_devices(outputs)),
        }
        moved = [_to_cpu(value) for value in example_inputs_]
        return original(_move(model_), moved, *args, config_patches=patches, **kwargs)

    return compile_fx_aot


def install() -> None:
    _names.replace(compile_fx, "compile_fx_aot", _compile)
