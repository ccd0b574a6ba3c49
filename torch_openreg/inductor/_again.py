"""The shortest way through the trees of graphs: the same recording once more.

A model that is called again and again has one recording, a root. The trees find that
out anew for each call, with some 30 us of Python, more than a small graph takes. Here
the last recording is kept, with what has to hold for it; where that does not hold, or
the call is anything but a root after a step that is over, the trees are asked.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import config

from torch_openreg import _C, _names

# With one of them the trees do more than run: they are asked each time.
_SETTINGS = (
    "fast_path_cudagraph_asserts",
    "force_cudagraph_sync",
    "force_cudagraphs_warmup",
)

# What _Root reads and sets in the place of the trees.
_OF_MANAGER = (
    "can_start_new_generation",
    "compile_id",
    "current_node",
    "id_to_compile_id",
    "id_to_mode",
    "mode",
    "path_state",
    "running_forwards_with_pending_backwards",
    "update_generation",
)
_OF_NODE = (
    "cached_tensor_outputs",
    "children",
    "expanded_dims",
    "non_static_input_idx",
    "parent",
    "reconstructed_inputs",
    "rerecord_if_static_inputs_change",
    "run_graph",
    "static_input_data_ptrs",
    "tensor_static_input_idxs",
    "wrapped_function",
)


class _Root:
    """A recording at the root of a tree, and who may run it without the tree."""

    def __init__(self, module: Any, manager: Any, node: Any, places: list[int]) -> None:
        self._executing = module.ExecutionState.EXECUTION
        self._manager = manager
        self._node = node
        self._function = node.wrapped_function.id
        self._mode = manager.id_to_mode[self._function]
        self._is_forward = self._mode == module.CompilationMode.FORWARD
        self._compile_id = manager.id_to_compile_id[self._function]
        self._copied = [(place, node.reconstructed_inputs[place]) for place in places]

    def run(self, inputs: list[Any]) -> list[Any] | None:
        """What CUDAGraphTreeManager.run() would return; None if it must be called."""
        manager, node = self._manager, self._node
        last = manager.current_node
        if (
            last is None
            or manager.path_state is not self._executing
            or last.children.get(self._function)
            or not manager.can_start_new_generation()
            or not _C._pointersAreEqual(
                inputs, node.static_input_data_ptrs, node.tensor_static_input_idxs
            )
        ):
            return None
        outputs = [*node.cached_tensor_outputs]
        if not outputs:
            return None
        for output in outputs:
            if output is None:
                return None
            if output._backward_hooks is not None:
                output._backward_hooks = None
        for place, target in self._copied:
            target.copy_(inputs[place])
        inputs.clear()
        manager.mode = self._mode
        manager.compile_id = self._compile_id
        manager.current_node = node
        manager.update_generation()
        node.run_graph()
        if self._is_forward:
            manager.running_forwards_with_pending_backwards = True
        return outputs


def _find(module: Any, device: int, model: Callable[..., Any]) -> _Root | None:
    """The recording of the model that ran last, if it is a root that needs no more than
    copies of its inputs."""
    manager = module.get_container(device).tree_manager
    node = manager and manager.current_node
    if not isinstance(node, module.CUDAGraphNode):
        return None
    _names.require(manager, *_OF_MANAGER)
    _names.require(node, *_OF_NODE)
    if (
        any(getattr(config.triton, name) for name in _SETTINGS)
        or node.parent is not None
        or node.wrapped_function.model is not model
        or not node.rerecord_if_static_inputs_change
    ):
        return None
    places = [
        place
        for place in node.non_static_input_idx
        if isinstance(node.reconstructed_inputs[place], torch.Tensor)
    ]
    if any(
        node.expanded_dims[place]
        or torch._debug_has_internal_overlap(node.reconstructed_inputs[place])
        for place in places
    ):
        return None
    return _Root(module, manager, node, places)


def remember_roots(module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """In the place of cudagraphify_impl() of the trees."""

    def cudagraphify_impl(
        model: Callable[..., Any],
        inputs: Sequence[Any],
        static_input_idxs: Sequence[int],
        **options: Any,
    ) -> Callable[..., Any]:
        ask_trees = original(model, inputs, static_input_idxs, **options)
        if options["mutated_input_idxs"] or any(isinstance(i, int) for i in inputs):
            return ask_trees
        root: _Root | None = None

        def run(inputs: list[Any]) -> list[Any]:
            nonlocal root
            outputs = root and root.run(inputs)
            if outputs is None:
                outputs = ask_trees(inputs)
                root = _find(module, options["device_index"], model)
            return outputs

        return run

    return cudagraphify_impl
