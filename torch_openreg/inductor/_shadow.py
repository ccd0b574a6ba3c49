"""Graphs of openreg tensors, seen by Inductor as graphs of ``cpu:<index>``.

Everything in Inductor that asks for ``device.type`` gets the CPU's answer, and the
index keeps tensors apart that really are on the CPU (_devices.py).
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor import compile_fx, graph, ir, lowering, utils
from torch._inductor.exc import InvalidCxxCompiler, OperatorIssue
from torch._inductor.fx_passes import post_grad
from torch._inductor.scheduler import Scheduler
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorConverter,
    in_kernel_invocation_manager,
)
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_any, tree_map

from torch_openreg import _names
from torch_openreg._device_name import NAME
from torch_openreg.dynamo.cache_folder import say_where_to_write

from . import _wrapper
from ._devices import device_behind, shadow_of

_local = threading.local()


def is_active() -> bool:
    """Whether this thread is compiling a graph whose devices were changed."""
    return getattr(_local, "active", False)


@contextlib.contextmanager
def _activate() -> Iterator[None]:
    before = is_active()
    _local.active = True
    try:
        yield
    finally:
        _local.active = before


def _shadow_fake(tensor: FakeTensor) -> FakeTensor:
    """The same tensor on another device: it shares the storage, for the sake of those
    who look for aliases. The original is left alone; AOTAutograd has it too."""
    with in_kernel_invocation_manager(tensor.fake_mode):
        return FakeTensor(tensor.fake_mode, tensor, shadow_of(tensor.fake_device))


def _is_ours(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.device.type == NAME
    return isinstance(value, torch.device) and value.type == NAME


def _shadow_value(value: Any) -> Any:
    if isinstance(value, torch.device):
        return shadow_of(value)
    if isinstance(value, FakeTensor) and _is_ours(value):
        return _shadow_fake(value)
    return value


def _modules(gm: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    return [m for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]


def _uses_openreg(gm: torch.fx.GraphModule, inputs: Any) -> bool:
    if tree_any(_is_ours, inputs):
        return True
    return any(
        tree_any(_is_ours, node.meta.get("val"))
        for module in _modules(gm)
        for node in module.graph.nodes
    )


def _shadow_graph(gm: torch.fx.GraphModule) -> None:
    for module in _modules(gm):
        for node in module.graph.nodes:
            for key in ("val", "example_value", "eager_input_vals"):
                if key in node.meta:
                    node.meta[key] = tree_map(_shadow_value, node.meta[key])
            node.args = map_aggregate(node.args, _shadow_value)
            node.kwargs = map_aggregate(node.kwargs, _shadow_value)


def _codegen(original: Callable[..., Any]) -> Callable[..., Any]:
    def fx_codegen_and_compile(gm: Any, example_inputs: Any, *args: Any, **kwargs: Any):
        if not _uses_openreg(gm, example_inputs):
            return original(gm, example_inputs, *args, **kwargs)
        if kwargs.get("fx_wrapper"):
            raise NotImplementedError(
                "fx_wrapper on openreg: Inductor writes graphs around Triton's kernels, "
                "and those of openreg are C++. Unset TORCHINDUCTOR_FX_WRAPPER."
            )
        _wrapper.register_shadow(is_active)
        _shadow_graph(gm)
        inputs = [_shadow_value(value) for value in example_inputs]
        with _activate(), _say_the_way_out(), say_where_to_write():
            return original(gm, inputs, *args, **kwargs)

    return fx_codegen_and_compile


@contextlib.contextmanager
def _say_the_way_out() -> Iterator[None]:
    try:
        yield
    except InvalidCxxCompiler as error:
        raise RuntimeError(
            f"torch.compile needs a C++ compiler for openreg. {error}. Install one "
            "(Debian: apt-get install g++), name yours in the environment variable "
            "CXX, or choose torch.compile(backend='openreg'), which needs none."
        ) from error
    except OperatorIssue as error:
        raise RuntimeError(
            f"Inductor cannot compile an operator for openreg: {error}\n"
            "Leave it out with torch.compiler.disable on the function that calls it, "
            "or choose torch.compile(backend='openreg'), which runs operators as they "
            "are."
        ) from error


# --- what a constant says of its device ---------------------------------------------


def _layout(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, device: torch.device, *args: Any, **kwargs: Any) -> None:
        original(self, shadow_of(device) if is_active() else device, *args, **kwargs)

    return __init__


def _decode_device(
    original: Callable[..., torch.device],
) -> Callable[..., torch.device]:
    def decode_device(device: Any) -> torch.device:
        decoded = original(device)
        return shadow_of(decoded) if is_active() else decoded

    return decode_device


def _constant(original: Callable[..., Any]) -> Callable[..., Any]:
    def Constant(*, device: torch.device, **kwargs: Any) -> Any:
        return original(device=shadow_of(device) if is_active() else device, **kwargs)

    return Constant


def _from_real_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    """Constants of a body of control flow, and those that a fallback is asked about."""

    def from_real_tensor(self: Any, *args: Any, **kwargs: Any) -> Any:
        fake = original(self, *args, **kwargs)
        return _shadow_value(fake) if is_active() else fake

    return from_real_tensor


def _get_attr(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_attr(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        value = original(self, target, args, kwargs)
        if is_active() and isinstance(value, torch.Tensor) and _is_ours(value):
            if isinstance(value, FakeTensor):
                return _shadow_fake(value)
            return self._mode.from_tensor(value, static_shapes=True)
        return value

    return get_attr


def _constant_name(original: Callable[..., str]) -> Callable[..., str]:
    """A constant is copied to the device that reads it, not to the CPU."""

    def constant_name(
        self: Any, name: str, device_override: torch.device | None
    ) -> str:
        if device_override is not None and is_active():
            device_override = device_behind(device_override)
        return original(self, name, device_override)

    return constant_name


# --- work without a device ------------------------------------------------------------


def _enter_context(original: Callable[..., None]) -> Callable[..., None]:
    """The CPU's kernels are written late, several in one: an event, which has no
    device, must not overtake them. This is called before anything else for a node."""

    def enter_context(self: Any, node: Any) -> None:
        if is_active() and node.is_extern() and node.get_device() is None:
            self.flush()
        original(self, node)

    return enter_context


def install() -> None:
    _names.replace(compile_fx, "fx_codegen_and_compile", _codegen)
    _names.replace(ir.Layout, "__init__", _layout)
    for module in (utils, lowering, post_grad):
        _names.replace(module, "decode_device", _decode_device)
    _names.replace(graph, "Constant", _constant)
    _names.replace(graph.GraphLowering, "constant_name", _constant_name)
    _names.replace(FakeTensorProp, "get_attr", _get_attr)
    _names.replace(FakeTensorConverter, "from_real_tensor", _from_real_tensor)
    _names.replace(Scheduler, "enter_context", _enter_context)
