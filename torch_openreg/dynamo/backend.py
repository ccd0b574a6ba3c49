"""The Dynamo backend "openreg": ``torch.compile(model, backend="openreg")``.

It captures graphs, and runs them on the device operator by operator. A vendor with a
compiler of its own puts it where :class:`Program` is; the rest stays.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd

#: What `torch.compile(backend="openreg", options={...})` takes.
OPTIONS = ("decompositions", "on_graph")


# docs:begin program
class Program:
    """A captured graph as a list of steps, each a call and what it is called with.

    This is the place of a vendor's compiler. It gets a graph of ATen operators, with
    a fake tensor in `node.meta["val"]` for each value (shape, strides, dtype, device;
    no data), and returns something that takes real tensors.

    Args:
        graph: the graph; calls only, since AOTAutograd has inlined the modules
        owner: has what the graph fetches: constants, and bodies of control flow
    """

    def __init__(self, graph: fx.Graph, owner: torch.nn.Module) -> None:
        # AOTAutograd passes one list instead of many arguments where it finds this.
        self._boxed_call = True
        self.steps: list[tuple[Callable, Any, Any, int, list[int]]] = []
        self.constants: dict[int, Any] = {}
        self.outputs: Any = ()
        self.inputs: list[int] = []
        place = {node: index for index, node in enumerate(graph.nodes)}
        self.size = len(place)
        last_use = self._find_last_uses(graph, place)
        for node in graph.nodes:
            args, kwargs = fx.node.map_arg(
                (node.args, node.kwargs), lambda n: _Slot(place[n])
            )
            if node.op == "placeholder":
                self.inputs.append(place[node])
            elif node.op == "get_attr":
                self.constants[place[node]] = operator.attrgetter(node.target)(owner)
            elif node.op == "call_function":
                step = (node.target, args, kwargs, place[node], last_use[node])
                self.steps.append(step)
            elif node.op == "output":
                self.outputs = args[0]
            else:
                raise NotImplementedError(
                    f"the backend 'openreg' runs graphs of function calls, but "
                    f"{node.name} is a {node.op}: compile with AOTAutograd in front"
                )

    @staticmethod
    def _find_last_uses(graph: fx.Graph, place: dict) -> dict[fx.Node, list[int]]:
        """Which values each node is the last to use: their memory is free after it."""
        dying: dict[fx.Node, list[int]] = {node: [] for node in graph.nodes}
        seen: set[fx.Node] = set()
        for node in reversed(graph.nodes):
            for used in (node, *node.all_input_nodes):
                if used not in seen and used.op != "get_attr":
                    seen.add(used)
                    dying[node].append(place[used])
        return dying

    def __call__(self, inputs: list[Any]) -> Any:
        """Run the steps. `inputs` is emptied, so that a tensor that nobody else has
        is freed after its last use."""
        values: list[Any] = [None] * self.size
        for index, constant in self.constants.items():
            values[index] = constant
        for index, value in zip(self.inputs, inputs, strict=True):
            values[index] = value
        inputs.clear()
        for function, args, kwargs, index, dying in self.steps:
            values[index] = function(*_fill(args, values), **_fill(kwargs, values))
            for dead in dying:
                values[dead] = None
        return _fill(self.outputs, values)


# docs:end program


class _Slot(int):
    """The number of a value."""


def _fill(template: Any, values: list[Any]) -> Any:
    """The template with values in the place of their numbers."""
    kind = type(template)
    if kind is _Slot:
        return values[template]
    if kind in (tuple, list, fx.immutable_collections.immutable_list):
        return [_fill(part, values) for part in template]
    if kind in (dict, fx.immutable_collections.immutable_dict):
        return {name: _fill(part, values) for name, part in template.items()}
    if kind is slice:
        ends = (template.start, template.stop, template.step)
        return slice(*(_fill(end, values) for end in ends))
    return template


# docs:begin backend
def openreg(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
) -> Callable:
    """Compile a graph of Dynamo's for the device.

    AOTAutograd stands in front of the compiler. It traces the backward pass, lowers
    both to ATen operators without mutation, and calls `compile_graph` for each.

    Args:
        module: what Dynamo captured
        example_inputs: fake tensors and symbols in the place of its arguments
        options: `"decompositions"`, a table of operators to take apart, from
            `torch._decomp.get_decompositions()`; `"on_graph"`, called with each graph
    """
    options = options or {}
    if unknown := sorted(options.keys() - set(OPTIONS)):
        raise ValueError(
            f"unknown options {unknown} of the backend 'openreg': it has "
            f"{list(OPTIONS)}"
        )
    on_graph = options.get("on_graph") or (lambda graph: None)

    def compile_graph(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Program:
        on_graph(graph)
        return Program(graph.graph, graph)

    compiler = aot_autograd(
        fw_compiler=compile_graph,
        decompositions=options.get("decompositions"),
        partition_fn=min_cut_rematerialization_partition,
    )
    return compiler(module, example_inputs)


# docs:end backend
