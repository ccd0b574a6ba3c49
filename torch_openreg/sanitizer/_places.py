"""Where in a program something happened, and what the program calls it."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torch_openreg._device_name import NAME
from torch_openreg.openreg import _metadata

_LIBRARIES = (
    f"{Path(torch.__file__).parent}/",
    f"{Path(__file__).resolve().parent.parent}/",
    "<",  # code without a file
)


@dataclass(frozen=True)
class Frame:
    """A line of Python that was being run."""

    file: str
    line: int
    function: str

    @property
    def is_library(self) -> bool:
        """Whether it belongs to PyTorch or this package, and not to the program."""
        return self.file.startswith(_LIBRARIES)

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f'File "{self.file}", line {self.line}, in {self.function}'


Stack = tuple[Frame, ...]


def stack(frames: list[dict[str, Any]]) -> Stack:
    """The innermost frame first."""
    return tuple(Frame(f["filename"], f["line"], f["name"]) for f in frames)


def own(frames: Stack) -> Stack:
    """The frames of the program itself; all if it has none."""
    return tuple(f for f in frames if not f.is_library) or frames


# --- names --------------------------------------------------------------------


def _variables() -> Iterator[tuple[str, Any]]:
    """The variables of the functions that the calling thread is in."""
    frame = sys._getframe(1)
    while frame:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            yield from list(frame.f_locals.items())
        frame = frame.f_back  # type: ignore[assignment]


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
        if value.grad_fn is None and value.is_leaf and value.grad is not None:
            yield f"{name}.grad", value.grad
    elif isinstance(value, torch.nn.Module):
        for part, parameter in value.named_parameters():
            yield from _tensors(f"{name}.{part}", parameter)
        yield from ((f"{name}.{part}", b) for part, b in value.named_buffers())
    elif isinstance(value, (list, tuple)) and len(value) < 100:
        for i, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                yield f"{name}[{i}]", item
    elif isinstance(value, dict) and len(value) < 100:
        for key, item in value.items():
            if isinstance(item, torch.Tensor):
                yield f"{name}[{key!r}]", item


def _holds(tensor: torch.Tensor, begin: int, end: int) -> bool:
    try:
        storage = tensor.untyped_storage()
        first = storage.data_ptr()
    except (RuntimeError, NotImplementedError):
        return False  # sparse, fake, or a subclass without memory of its own
    return first < end and begin < first + storage.nbytes()


def tensor_name(begin: int, end: int) -> str | None:
    """What the program calls the tensor that has these bytes: by its metadata, or by a
    variable that is at hand."""
    if name := _metadata.name_at(begin, end):
        return name
    for name, value in _variables():
        for full_name, tensor in _tensors(name, value):
            if _holds(tensor, begin, end):
                return full_name
    return None


def stream_name(device: int, stream_id: int) -> str:
    """What the program calls a stream, or else which one it is."""
    if device < 0:
        return "the host"
    if stream_id == 0:
        return f"the default stream of {NAME}:{device}"
    for name, value in _variables():
        if (
            isinstance(value, torch.Stream)
            and value.stream_id == stream_id
            and value.device_index == device
            and name != "self"
        ):
            return f"stream `{name}` of {NAME}:{device}"
    return f"stream {stream_id:#x} of {NAME}:{device}"
