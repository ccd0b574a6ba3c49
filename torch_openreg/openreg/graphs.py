"""Graphs: work that is recorded once and replayed as a whole.

A capture records what is launched into a stream; nothing of it runs. A replay runs
all of it, on the same memory, without Python, dispatch or allocation.
"""

from __future__ import annotations

import gc
from typing import Any, NewType

import torch

from torch_openreg import _C, _creation

from ._graph_inputs import InputWatch
from ._lazy import _lazy_init, is_initialized
from .memory import empty_cache, empty_host_cache
from .streams import Stream
from .streams import stream as _stream_context
from ._device import synchronize

__all__ = [
    "OpenRegGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_POOL_HANDLE = NewType("_POOL_HANDLE", tuple[int, int])


def is_current_stream_capturing() -> bool:
    """Whether the work of the current stream is being recorded into a graph."""
    return is_initialized() and _C._isCurrentStreamCapturing()


def graph_pool_handle() -> _POOL_HANDLE:
    """The id of a new memory pool, for graphs that share one."""
    _lazy_init()
    return _POOL_HANDLE(_C._graphPoolHandle())


class OpenRegGraph(_C._OpenRegGraph):
    """Recorded work, ready to be replayed.

    Args:
        keep_graph: keep the recorded graph itself for :meth:`raw_openreg_graph`. Then
            :meth:`instantiate`, or else the first :meth:`replay`, makes it ready to
            run; by default the end of the capture does, and the graph is dropped.
    """

    _watch: InputWatch | None = None

    def __init__(self, keep_graph: bool = False) -> None:
        _lazy_init()
        super().__init__(keep_graph)
        _creation.note("graph", self)

    def capture_begin(
        self,
        pool: _POOL_HANDLE | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Start to record the work of the current stream.

        :class:`graph` does so and more; prefer it.

        Args:
            pool: the pool to allocate from, of :func:`graph_pool_handle` or another
                graph's :meth:`pool`; by default one of its own. Graphs that share a
                pool must be replayed in the order in which they were captured.
            capture_error_mode: which threads must not do meanwhile what is unsafe,
                for instance allocate memory outside of the capture: all of them,
                with "global", this one with "thread_local", none with "relaxed"
            check_input_liveness: have :meth:`replay` raise if a tensor from outside
                of the capture is gone that the recorded work uses
        """
        self._stop_watching()
        super().capture_begin(pool, capture_error_mode)
        if check_input_liveness:
            self._watch = InputWatch()
            self._watch.start()

    def capture_end(self) -> None:
        """End the recording, in the stream in which it began."""
        if self._watch is not None:
            self._watch.stop()
        super().capture_end()

    def instantiate(self) -> None:
        """Make the recorded graph ready to run; again after it was changed."""
        super().instantiate()

    def replay(self) -> None:
        """Run all recorded work in the current stream."""
        if self._watch is not None:
            self._watch.check(self.pool())
        super().replay()

    def reset(self) -> None:
        """Forget the recorded work, and give its memory back."""
        self._stop_watching()
        super().reset()

    def pool(self) -> _POOL_HANDLE:
        """The id of the pool of memory that the capture allocated from."""
        return _POOL_HANDLE(super().pool())

    def enable_debug_mode(self) -> None:
        """Let this and later graphs keep what :meth:`debug_dump` needs."""
        super().enable_debug_mode()

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph to a file in the DOT language, for Graphviz."""
        super().debug_dump(debug_path)

    def raw_openreg_graph(self) -> int:
        """The handle, an ``orGraph_t``, of a graph that was kept."""
        return super().raw_openreg_graph()

    def raw_openreg_graph_exec(self) -> int:
        """The handle, an ``orGraphExec_t``, of what a replay launches."""
        return super().raw_openreg_graph_exec()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Let the graph draw from a generator other than its device's own. Call it
        before the capture; each replay then moves the generator on."""
        super().register_generator_state(generator)

    def get_graph_data(self) -> dict[str, Any]:
        """Nodes and edges of a graph that was kept and instantiated.

        Returns:
            a dict with ``"exec_graph_id"`` and ``"nodes"``, a list of dicts with the
            keys ``index``, ``node_type``, ``tools_id``, ``graph_id``, ``node_id``,
            ``kernel_name``, which is None: see :meth:`debug_dump`, ``dependencies``
            and ``dependents``, which are indices of other nodes
        """
        nodes, edges = self._topology()
        graph_id = self.raw_openreg_graph_exec()
        found: list[dict[str, Any]] = [
            {
                "index": index,
                "node_type": node_type,
                "tools_id": graph_id << 32 | index,
                "graph_id": graph_id,
                "node_id": index,
                "kernel_name": None,
                "dependencies": [],
                "dependents": [],
            }
            for index, node_type in enumerate(nodes)
        ]
        for before, after in edges:
            found[before]["dependents"].append(after)
            found[after]["dependencies"].append(before)
        return {"exec_graph_id": graph_id, "nodes": found}

    def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()


class graph:
    """A context that records its work into a graph.

    It waits for the device and empties the caches first, so that the graph's memory
    finds room.

    Args:
        openreg_graph: what the work is recorded into
        pool: as of :meth:`OpenRegGraph.capture_begin`
        stream: where to record; by default a stream that all captures share
        capture_error_mode: as of :meth:`OpenRegGraph.capture_begin`
        enable_annotations: not supported: openreg records no annotations of kernels
        check_input_liveness: as of :meth:`OpenRegGraph.capture_begin`
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        openreg_graph: OpenRegGraph,
        pool: _POOL_HANDLE | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        if enable_annotations:
            raise NotImplementedError(
                "openreg records no annotations of kernels: use "
                "enable_annotations=False"
            )
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.pool = () if pool is None else (pool,)
        self.capture_stream = stream
        self.stream_ctx = _stream_context(stream)
        self.openreg_graph = openreg_graph
        self.capture_error_mode = capture_error_mode
        self.check_input_liveness = check_input_liveness

    def __enter__(self) -> None:
        synchronize()
        if torch.compiler.config.force_cudagraph_gc:
            gc.collect()
        empty_cache()
        empty_host_cache()
        self.stream_ctx.__enter__()
        self.openreg_graph.capture_begin(
            *self.pool,
            capture_error_mode=self.capture_error_mode,
            check_input_liveness=self.check_input_liveness,
        )

    def __exit__(self, *args: object) -> None:
        # As on CUDA the stream stays current if the capture failed.
        self.openreg_graph.capture_end()
        self.stream_ctx.__exit__(*args)


# It is made of the names above.
from ._graphed import make_graphed_callables  # noqa: E402
