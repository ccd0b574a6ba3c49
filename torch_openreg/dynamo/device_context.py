"""How Dynamo traces ``with torch.openreg.device(1):``.

As ``torch.cuda.device``, by the class that PyTorch has for both. That class gives wrong
answers where a tensor names a device without its index: AOTAutograd drops the change of
the current device, and fake tensors are cached without it. A function that makes such a
tensor runs as it is.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch._dynamo.exc import unimplemented
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import (
    VariableTracker,
    ctx_manager,
    register_device_context_manager,
)

from torch_openreg import openreg

_entered = 0


def is_entered() -> bool:
    """Whether what is traced now stands in such a context."""
    return _entered > 0


class OpenRegDeviceVariable(ctx_manager.GenericDeviceVariable):
    """The context ``torch.openreg.device``, of a device that is known when traced."""

    _exchange_fn = staticmethod(openreg._exchange_device)
    _maybe_exchange_fn = staticmethod(openreg._maybe_exchange_device)
    _get_device_index_fn = staticmethod(openreg._utils._get_device_index)

    @classmethod
    def create(cls, tx: Any, device: Any, **kwargs: Any) -> Any:
        if device is None or _lacks_index(device):
            device = _ask_for_current_device(tx)
        return super().create(tx, device, **kwargs)

    def enter(self, tx: Any) -> Any:
        global _entered
        result = super().enter(tx)
        _entered += 1
        self.cleanup_fn = _and_leave(self.cleanup_fn)
        return result

    def exit(self, tx: Any, *args: Any) -> Any:
        if self.target_values[0] >= 0:
            _refuse_missing_indices(tx, self.proxy, self.target_values[0])
        return super().exit(tx, *args)

    def module_name(self) -> str:
        return "torch.openreg"

    def python_type(self) -> type:
        return openreg.device


def _and_leave(restore: Callable[[], None]) -> Callable[[], None]:
    def clean_up() -> None:
        global _entered
        _entered -= 1
        restore()

    return clean_up


def _lacks_index(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "openreg" and value.index is None
    return isinstance(value, str) and value == "openreg"


def _ask_for_current_device(tx: Any) -> int:
    """Its index, guarded: it may be another one at the next call."""
    question = torch.accelerator.current_device_index
    module = tx.import_source(question.__module__)
    traced = VariableTracker.build(tx, question, AttrSource(module, question.__name__))
    return traced.call_function(tx, [], {}).as_python_constant()


def _after(node: fx.Node) -> Iterator[fx.Node]:
    while (node := node.next).op != "root":
        yield node


def _with_bodies(
    nodes: Iterator[fx.Node], modules: Mapping[Any, Any]
) -> Iterator[fx.Node]:
    """The nodes, and those of the bodies of control flow among them."""
    for node in nodes:
        yield node
        if isinstance(body := modules.get(node.target), fx.GraphModule):
            yield from _with_bodies(iter(body.graph.nodes), modules)


def _refuse_missing_indices(tx: Any, entry: fx.Node, index: int) -> None:
    for node in _with_bodies(_after(entry), tx.output.nn_modules):
        if any(map(_lacks_index, (*node.args, *node.kwargs.values()))):
            unimplemented(
                gb_type="a device without an index in torch.openreg.device()",
                context=str(node.format_node()),
                explanation="Compiled code does not keep the current device, so a "
                f"tensor on 'openreg' would not always be on openreg:{index}.",
                hints=[
                    f"Name the device of the tensor: device='openreg:{index}'.",
                    "Or change the device outside of what is compiled.",
                ],
                skip_frame=True,
            )


def install() -> None:
    register_device_context_manager(openreg.device, OpenRegDeviceVariable)
