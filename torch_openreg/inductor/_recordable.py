"""What of a compiled graph is recorded, and what users are told of the rest."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config, cudagraph_utils, ir, output_code, scheduler
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_openreg import _C, _names
from torch_openreg._device_name import IS_CUDA, NAME

from . import _shadow
from ._devices import is_shadow
from ._trees import OpenRegIndex

_local = threading.local()


# --- nodes ---------------------------------------------------------------------------


def _reads_host_memory(node: Any) -> bool:
    """A graph would keep the value that the CPU's tensor had in its capture."""
    for dependency in node.read_writes.reads:
        buffer = V.graph.try_get_buffer(dependency.name)
        if buffer is None:
            continue
        device = buffer.get_device()
        if device is not None and device.type == "cpu" and device.index is None:
            return True
    return False


def _should_partition(original: Callable[..., Any]) -> Callable[..., Any]:
    def should_partition(self: Any, node: Any) -> str | None:
        if not _shadow.is_active():
            return original(self, node)
        _local.asking = True
        try:
            reason = original(self, node)
        finally:
            _local.asking = False
        if reason is None and _reads_host_memory(node):
            return "reads a tensor of the CPU"
        if reason is None and isinstance(node.node, ir.MultiOutput):
            # Part of what another node returns: it is a list until here.
            (producer,) = node.node.inputs
            made_by = self.name_to_buf[producer.get_name()].defining_op
            return self.should_partition(made_by)
        return reason

    return should_partition


def _is_gpu(original: Callable[..., bool]) -> Callable[..., bool]:
    def is_gpu(self: Any) -> bool:
        if getattr(_local, "asking", False) and is_shadow(self.get_device()):
            return True
        return original(self)

    return is_gpu


def _log_partitions(original: Callable[..., None]) -> Callable[..., None]:
    def _log_graph_partitions(self: Any, *args: Any) -> None:
        if not _shadow.is_active():
            return original(self, *args)
        types = V.graph.device_types
        V.graph.device_types = OrderedSet([*types, "cuda"])
        try:
            original(self, *args)
        finally:
            V.graph.device_types = types

    return _log_graph_partitions


# --- graphs --------------------------------------------------------------------------


def _check_devices(original: Callable[..., Any]) -> Callable[..., Any]:
    def check_lowering_disable_cudagraph(nodes: dict[torch.device, Any]) -> str | None:
        if not _shadow.is_active():
            return original(nodes)
        if not config.triton.cudagraph_trees:
            return cudagraph_utils.format_default_skip_message(
                "config.triton.cudagraph_trees=False, which only CUDA supports"
            )
        return ask_as_cuda(original, nodes, is_shadow)

    return check_lowering_disable_cudagraph


def ask_as_cuda(
    check: Callable[..., str | None],
    nodes: dict[torch.device, Any],
    is_ours: Callable[[torch.device], bool],
) -> str | None:
    """What keeps nodes on these devices from being recorded, by PyTorch's rules."""
    if not _C._cachingEnabled():
        return cudagraph_utils.format_default_skip_message(
            "cudagraph capture requires the caching allocator; "
            "current allocator is uncached"
        )
    seen = {
        torch.device("cuda", device.index) if is_ours(device) else device: node
        for device, node in nodes.items()
    }
    reason = check(seen)
    return reason and reason.replace("type='cuda'", f"type='{NAME}'")


def _mark(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _shadow.is_active():
            self.device_types = OrderedSet([NAME])
            self.device_idxs = OrderedSet(map(OpenRegIndex, self.device_idxs))

    return __init__


def _post_compile(original: Callable[..., None]) -> Callable[..., None]:
    def post_compile(self: Any, inputs: Any, constants: Any, kwargs: Any) -> None:
        wanted = config.triton.cudagraphs and NAME in self.device_types
        original(self, inputs, constants, kwargs)
        if not wanted:
            return
        reason = self.disabled_cudagraphs_reason
        if reason is None and self.cudagraph_info is not None:
            reasons = self.cudagraph_info.cudagraph_fail_reasons
            reason = f"skipping cudagraphs due to {reasons}" if reasons else None
        if reason is not None:
            _tell(reason)

    return post_compile


def _tell(reason: str) -> None:
    """Inductor counts what it leaves out, but reports it for CUDA only."""
    cudagraph_utils.cudagraphs_log.warning(reason)
    if config.triton.cudagraph_or_error:
        raise RuntimeError(reason)


def install() -> None:
    _names.replace(scheduler.Scheduler, "should_partition", _should_partition)
    _names.replace(scheduler.BaseSchedulerNode, "is_gpu", _is_gpu)
    _names.replace(scheduler.Scheduler, "_log_graph_partitions", _log_partitions)
    _names.replace(cudagraph_utils, "check_lowering_disable_cudagraph", _check_devices)
    _names.replace(output_code.CompiledFxGraph, "__init__", _mark)
    if not IS_CUDA:
        _names.replace(output_code.CompiledFxGraph, "post_compile", _post_compile)
