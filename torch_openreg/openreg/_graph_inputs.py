"""Whether the tensors that a graph reads from outside are still there."""

from __future__ import annotations

import traceback
import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from torch_openreg import _C
from torch_openreg._device_name import NAME


class _Input:
    """A storage that captured work uses, and where that was noted."""

    def __init__(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.address = tensor.data_ptr()
        self._start = storage.data_ptr()
        self._storage = weakref.ref(storage)
        self.used_at = "".join(traceback.format_stack(limit=8)[:-3])

    def is_alive(self) -> bool:
        storage = self._storage()
        return storage is not None and storage.data_ptr() == self._start


class InputWatch:
    """Notes the inputs of a capture, to tell which of them are gone at a replay."""

    def __init__(self) -> None:
        self._inputs: dict[int, _Input] = {}
        self._made: set[int] = set()
        self._mode: _InputMode | None = None

    def start(self) -> None:
        self._mode = _InputMode(self)
        self._mode.__enter__()

    def stop(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.__exit__(None, None, None)

    def note(self, inputs: Any, outputs: Any) -> None:
        for tensor in tree_iter(inputs):
            if isinstance(tensor, Tensor) and _is_on_device(tensor):
                address = tensor.data_ptr()
                if address not in self._made and address not in self._inputs:
                    self._inputs[address] = _Input(tensor)
        for tensor in tree_iter(outputs):
            if isinstance(tensor, Tensor) and _is_on_device(tensor):
                if tensor.data_ptr() not in self._inputs:
                    self._made.add(tensor.data_ptr())

    def check(self, pool: tuple[int, int]) -> None:
        """Raise if an input is gone, unless its memory is the graph's own."""
        dead = [i for i in self._inputs.values() if not i.is_alive()]
        if dead:
            own = [
                range(segment["address"], segment["address"] + segment["total_size"])
                for segment in _C._memorySnapshot(pool, False)["segments"]
            ]
            dead = [i for i in dead if not any(i.address in part for part in own)]
        if dead:
            raise RuntimeError(
                f"OpenReg graph replay detected {len(dead)} dead tensor(s): the graph "
                "would read memory that may belong to others. Keep what a capture "
                f"uses for as long as it is replayed. The first, at "
                f"{dead[0].address:#x}, was used at\n{dead[0].used_at}"
            )


def _is_on_device(tensor: Tensor) -> bool:
    return (tensor.device.type == NAME or tensor.is_pinned()) and bool(
        tensor.data_ptr()
    )


class _InputMode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, watch: InputWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if torch.openreg.is_current_stream_capturing():
            self._watch.note((args, kwargs), result)
        return result
