"""Inductor's trees of CUDA graphs, as trees of the device's graphs.

``torch/_inductor/cudagraph_trees.py`` knows nothing of CUDA but names. It is loaded a
second time, with the names of the device in their places; the rules of recording, of
memory and of outputs that are overwritten, and all messages, stay PyTorch's.
"""

import contextlib
import functools
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._dynamo.utils import counters

from torch_openreg import _names
from torch_openreg._device_name import IS_CUDA

from . import _tree_functions
from ._again import remember_roots

_OURS = "torch._inductor.cudagraph_trees_of_openreg"  # its logs are Inductor's

# docs:begin tree-names
_NAMES = {
    r"\btorch\.cuda\.CUDAGraph\b": "torch.openreg.OpenRegGraph",
    r"\btorch\.cuda\b": "torch.openreg",
    r"\.is_cuda\b": ".is_openreg",
    r"\btorch\._C\._(?=cuda_|cudnn_)": "_openreg._",
    r"\btorch\._C\._(?=construct_CUDA_|tensors_data_ptrs_)": "_openreg._",
    r"\btorch\._C\._(?=set_storage_|free_And_|has_Standard_)": "_openreg._",
    r"\btree_manager_(?=containers|locks)": "openreg_tree_manager_",
}
# docs:end tree-names


def _read(path: str) -> str:
    """The source of cudagraph_trees.py in the names of the device."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    for pattern, name in _NAMES.items():
        source, count = re.subn(pattern, name, source)
        if count == 0:
            raise _names.missing(f"{pattern} in torch/_inductor/cudagraph_trees.py")
    return source


@functools.cache
def trees() -> ModuleType:
    """The module, loaded when something is recorded for the first time."""
    from torch._inductor import cudagraph_trees

    if IS_CUDA:  # the names are right, and torch._C has them
        _adapt(cudagraph_trees, cudagraph_trees)
        return cudagraph_trees
    path = cudagraph_trees.__file__
    module = ModuleType(_OURS)
    module.__package__ = "torch._inductor"
    module.__file__ = path
    module._openreg = _tree_functions  # type: ignore[attr-defined]
    sys.modules[_OURS] = module
    exec(compile(_read(path), path, "exec", dont_inherit=True), module.__dict__)
    _adapt(module, cudagraph_trees)
    return module


def _adapt(module: Any, original: Any) -> None:
    # cudagraph_mark_step_begin() is one call for all devices.
    module.MarkStepBox = original.MarkStepBox
    module._set_cached_tensors_enabled = torch._C._set_cached_tensors_enabled
    # A graph has no branches: Inductor leaves `cond` out of what is recorded.
    module.ControlFlowOpWarmupDispatchMode = contextlib.nullcontext
    module.CUDAGraphCaptureControlFlowOpDispatchMode = contextlib.nullcontext
    manager = module.CUDAGraphTreeManager
    _names.replace(manager, "run", functools.partial(_end_first, module))
    _names.replace(manager, "exceed_rerecord_limit", _ask_if_any)
    _names.replace(
        module, "cudagraphify_impl", functools.partial(remember_roots, module)
    )
    _names.replace(module.CUDAGraphNode, "_record", _counted("cudagraph_recordings"))
    _names.replace(module.CUDAGraphNode, "run_graph", _counted("cudagraph_replays"))


# --- shorter ways --------------------------------------------------------------------


def _end_first(module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """A root that follows its own last run is looked for among the children of that
    run, then the run is ended, and all begins anew. Where there are no such children
    the run is ended at once."""

    def run(self: Any, new_inputs: list[Any], function_id: Any) -> Any:
        node = self.current_node
        if (
            node is not None
            and self.path_state == module.ExecutionState.EXECUTION
            and function_id in self.roots
            and not node.children.get(function_id)
            and not self.ids_to_funcs[function_id].mutated_input_idxs
        ):
            self.try_end_curr_execution()
        return original(self, new_inputs, function_id)

    return run


def _ask_if_any(original: Callable[..., bool]) -> Callable[..., bool]:
    """Looks the limit up if there is something to compare with it."""

    def exceed_rerecord_limit(self: Any, node_id: Any, function_id: Any) -> bool:
        if not self.num_rerecord[node_id][function_id]:
            return False
        return original(self, node_id, function_id)

    return exceed_rerecord_limit


# --- figures -------------------------------------------------------------------------


def _counted(name: str) -> Callable[..., Any]:
    def count(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            counters["inductor"][name] += 1
            return original(*args)

        return call

    return count


# --- who records what ----------------------------------------------------------------


class OpenRegIndex(int):
    """The index of a device of openreg, where Inductor expects one of CUDA."""


def _of_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """Has a function of cudagraph_trees that is told a device ask the right trees."""
    name = original.__name__

    def choose(*args: Any, **kwargs: Any) -> Any:
        index = kwargs.get("device_index", args[0] if args else None)
        chosen = original
        if isinstance(index, OpenRegIndex):
            chosen = getattr(trees(), name)
        return chosen(*args, **kwargs)

    return choose


def _reset(original: Callable[[], None]) -> Callable[[], None]:
    def reset_cudagraph_trees() -> None:
        original()
        if _OURS in sys.modules:
            trees().reset_cudagraph_trees()

    return reset_cudagraph_trees


def install() -> None:
    """After torch._inductor.cudagraph_trees was imported."""
    from torch._inductor import cudagraph_trees

    if IS_CUDA:
        trees()
        return
    _names.replace(cudagraph_trees, "cudagraphify_impl", _of_device)
    _names.replace(cudagraph_trees, "get_manager", _of_device)
    _names.replace(cudagraph_trees, "reset_cudagraph_trees", _reset)
