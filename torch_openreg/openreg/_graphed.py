"""Functions and modules whose forward and backward passes are graph replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from ._device import synchronize
from .graphs import _POOL_HANDLE, OpenRegGraph, graph, graph_pool_handle
from .streams import Stream
from .streams import stream as _stream_context

_Callable = torch.nn.Module | Callable[..., object]


def make_graphed_callables(
    callables: _Callable | tuple[_Callable, ...],
    sample_args: tuple[Tensor, ...] | tuple[tuple[Tensor, ...], ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _POOL_HANDLE | None = None,
) -> _Callable | tuple[_Callable, ...]:
    """Replace functions or modules by ones whose forward and backward passes are
    replays of graphs.

    A module keeps its identity: its ``forward`` is replaced by one that replays while
    the module's ``training`` is what it was here. A function is returned as a new one.
    Arguments of later calls have the shapes, dtypes and ``requires_grad`` of the
    samples.

    Args:
        callables: one, or a tuple in the order in which they will be called; these
            share a pool of memory
        sample_args: the arguments, tensors only, of the callable, or of each
        num_warmup_iters: how often each runs before it is captured
        allow_unused_input: let the outputs be independent of some inputs
        pool: as of :meth:`OpenRegGraph.capture_begin`; by default a new one
    """
    if torch.is_autocast_enabled("openreg") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please "
            "set `cache_enabled=False`."
        )
    is_one = not isinstance(callables, tuple)
    many = (callables,) if is_one else callables
    samples = (sample_args,) if is_one else sample_args
    parts = [
        _GraphedCallable(function, args, allow_unused_input)
        for function, args in zip(many, samples, strict=True)
    ]
    synchronize()
    with _stream_context(Stream()):
        for part in parts:
            part.warm_up(num_warmup_iters)
    synchronize()
    # A pool is shared by graphs that are replayed in the order of their captures.
    handle = graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(handle)
    for part in reversed(parts):
        part.capture_backward(handle)
    made = tuple(part.replacement() for part in parts)
    return made[0] if is_one else made


class _GraphedCallable:
    """A callable, its graphs, and the tensors that these read and write."""

    def __init__(
        self, function: _Callable, args: tuple[Tensor, ...], allow_unused: bool
    ) -> None:
        leaves = tuple(_pytree.arg_tree_leaves(*args))
        self._check(function, leaves)
        self.function = function
        self.args = args
        self.allow_unused = allow_unused
        self.parameters: tuple[Tensor, ...] = ()
        if isinstance(function, torch.nn.Module):
            self.parameters = tuple(function.parameters())
        self.given = len(leaves)
        self.inputs = leaves + self.parameters
        self.forward_graph, self.backward_graph = OpenRegGraph(), OpenRegGraph()
        self.outputs: tuple[Tensor, ...] = ()
        self.grad_outputs: tuple[Tensor | None, ...] = ()
        self.grad_inputs: tuple[Tensor | None, ...] = ()

    @staticmethod
    def _check(function: _Callable, leaves: tuple[Any, ...]) -> None:
        if isinstance(function, torch.nn.Module):
            hooks = (
                function._backward_hooks,
                function._forward_hooks,
                function._forward_pre_hooks,
            )
            if any(hooks):
                raise AssertionError(
                    "Modules must not have hooks registered at the time they are "
                    "passed. However, registering hooks on modules after passing "
                    "them through make_graphed_callables is allowed."
                )
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise AssertionError(
                    "In any :class:`~torch.nn.Module` passed to "
                    ":func:`~make_graphed_callables`, only parameters may be "
                    "trainable. All buffers must have ``requires_grad=False``."
                )
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise AssertionError(
                "In the beta API, sample_args for each callable must contain only "
                "Tensors. Other types are not allowed."
            )

    def _gradients(
        self, outputs: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]
    ) -> tuple[Tensor | None, ...]:
        """Of all inputs; None where none is asked for."""
        wanted = [i for i in self.inputs if i.requires_grad]
        found = iter(
            torch.autograd.grad(
                [o for o in outputs if o.requires_grad],
                wanted,
                [g for g in grads if g is not None],
                allow_unused=self.allow_unused,
            )
        )
        return tuple(next(found) if i.requires_grad else None for i in self.inputs)

    @staticmethod
    def _empty_gradients(outputs: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        return tuple(torch.empty_like(o) if o.requires_grad else None for o in outputs)

    def warm_up(self, iterations: int) -> None:
        for _ in range(iterations):
            outputs = tuple(_pytree.tree_leaves(self.function(*self.args)))
            if any(o.requires_grad for o in outputs):
                self._gradients(outputs, self._empty_gradients(outputs))

    def capture_forward(self, pool: _POOL_HANDLE) -> None:
        with graph(self.forward_graph, pool=pool):
            made = self.function(*self.args)
        leaves, self.structure = _pytree.tree_flatten(made)
        self.outputs = tuple(leaves)

    def capture_backward(self, pool: _POOL_HANDLE) -> None:
        self.grad_outputs = self._empty_gradients(self.outputs)
        self.grad_inputs = (None,) * len(self.inputs)
        if any(o.requires_grad for o in self.outputs):
            with graph(self.backward_graph, pool=pool):
                self.grad_inputs = self._gradients(self.outputs, self.grad_outputs)

    def replacement(self) -> _Callable:
        function = self.function
        replay = self._make_replay()
        if not isinstance(function, torch.nn.Module):
            return replay
        original, trains = function.forward, function.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            chosen = replay if function.training == trains else original
            return chosen(*args, **kwargs)

        function.forward = forward
        return function

    def _make_replay(self) -> Callable[..., object]:
        part = self

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
                # Parameters are where they were.
                for static, given in zip(part.inputs[: part.given], inputs):
                    _move_into(static, given)
                part.forward_graph.replay()
                return tuple(output.detach() for output in part.outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
                for static, given in zip(part.grad_outputs, grads, strict=True):
                    if static is not None:
                        _move_into(static, given)
                part.backward_graph.replay()
                return tuple(g if g is None else g.detach() for g in part.grad_inputs)

        def replay(*args: Any) -> Any:
            leaves = tuple(_pytree.arg_tree_leaves(*args))
            outputs = Graphed.apply(*leaves, *part.parameters)
            return _pytree.tree_unflatten(outputs, part.structure)

        return replay


def _move_into(static: Tensor, given: Tensor) -> None:
    if static.data_ptr() != given.data_ptr():
        static.copy_(given)
