"""Copies between several devices, for DataParallel and ``torch.cuda.comm``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # torch is not all there when this is loaded
    from torch import Tensor


def _device(index: int | None) -> torch.device:
    """-1 is the CPU, None the current device."""
    if index == -1:
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device() if index is None else index)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(otherwise)


def _check_cuda(kind: str, tensors: Sequence[Tensor]) -> None:
    name = "tensor" if kind == "input" else f"{kind} tensor"
    for i, tensor in enumerate(tensors):
        _check(
            tensor.is_cuda,
            f"Expected all {kind} tensors to be CUDA tensors, but {name} at index {i} "
            f"has device '{tensor.device}'",
        )


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    return [tensor.to(_device(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: Tensor, out_tensors: list[Tensor]) -> list[Tensor]:
    _check_cuda("output", out_tensors)
    for i, out in enumerate(out_tensors):
        _check(
            out.shape == tensor.shape,
            "Expected all output tensors to have same shape as the source tensor "
            f"{[*tensor.shape]}, but output tensor at index {i} has shape "
            f"{[*out.shape]}",
        )
    for out in out_tensors:
        out.copy_(tensor, non_blocking=True)
    return out_tensors


def _broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[Tensor]]:
    """By device. Nothing is gained by larger copies here, so there is no buffer."""
    return [[*copies] for copies in zip(*(_broadcast(t, devices) for t in tensors))]


def _streams_for(devices: Sequence[int], streams: Sequence[Any] | None) -> list[Any]:
    """A stream for each device, or None for its current one."""
    given = [*(streams or ()), *[None] * len(devices)][: len(devices)]
    for i, (device, stream) in enumerate(zip(devices, given)):
        _check(
            stream is None or stream.device_index == device,
            "Expected the device associated with the stream at index "
            f"{i} (was {stream and stream.device_index}) to match the device supplied "
            f"at that index (expected {device})",
        )
    return given


def _scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[Any] | None,
) -> list[Tensor]:
    _check(len(devices) > 0, "Expected at least one device to scatter to")
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    else:
        _check(
            len(chunk_sizes) == len(devices),
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}",
        )
        chunks = tensor.split([*chunk_sizes], dim)
    copies = []
    for chunk, index, stream in zip(chunks, devices, _streams_for(devices, streams)):
        with torch.cuda.stream(stream):
            copies.append(chunk.to(_device(index), non_blocking=True))
    return copies


def _except(shape: Sequence[int], dim: int) -> list[int]:
    """A shape without one dimension."""
    return [size for i, size in enumerate(shape) if i != dim]


def _scatter_out(
    tensor: Tensor,
    out_tensors: list[Tensor],
    dim: int,
    streams: Sequence[Any] | None,
) -> list[Tensor]:
    _check(len(out_tensors) > 0, "Expected at least one output tensor to scatter to")
    _check_cuda("output", out_tensors)
    dim = dim % tensor.dim() if -tensor.dim() <= dim < 0 else dim
    for i, out in enumerate(out_tensors):
        _check(
            out.dim() == tensor.dim()
            and _except(out.shape, dim) == _except(tensor.shape, dim),
            f"Output tensor at index {i} has incorrect shape: {[*out.shape]}. Expected "
            f"same shape except for scatter dim {dim} as the source tensor: "
            f"{[*tensor.shape]}",
        )
    sizes = [out.size(dim) for out in out_tensors]
    _check(
        sum(sizes) == tensor.size(dim),
        f"Total size for output tensors along scatter dim {dim} does not match the "
        f"source tensor size along dim {dim}. Expected {tensor.size(dim)}, but got "
        f"total size {sum(sizes)}",
    )
    chunks = tensor.split(sizes, dim)
    devices = [out.get_device() for out in out_tensors]
    for chunk, out, stream in zip(chunks, out_tensors, _streams_for(devices, streams)):
        with torch.cuda.stream(stream):
            out.copy_(chunk, non_blocking=True)
    return out_tensors


def _check_gathered(tensors: Sequence[Tensor], dim: int) -> None:
    _check(len(tensors) > 0, "Expected at least one tensor to gather from")
    _check_cuda("input", tensors)
    first = tensors[0]
    dim = dim % first.dim() if -first.dim() <= dim < 0 else dim
    for i, tensor in enumerate(tensors):
        _check(
            tensor.dim() == first.dim(),
            "Expected all input tensors to have the same number of dimensions, but "
            f"tensor at index {i} has {tensor.dim()} dimensions, (expected "
            f"{first.dim()})",
        )
        _check(
            _except(tensor.shape, dim) == _except(first.shape, dim),
            f"Input tensor at index {i} has invalid shape {[*tensor.shape]}, but "
            f"expected that of the first, {[*first.shape]}, except in dim {dim}",
        )


def _gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    _check_gathered(tensors, dim)
    where = _device(destination)
    return torch.cat([tensor.to(where) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[Tensor], out_tensor: Tensor, dim: int) -> Tensor:
    _check_gathered(tensors, dim)
    where = out_tensor.device
    shape = [*tensors[0].shape]
    shape[dim] = sum(tensor.size(dim) for tensor in tensors)
    _check(
        [*out_tensor.shape] == shape,
        f"Expected out tensor to have shape {shape}, but got {[*out_tensor.shape]}",
    )
    return torch.cat([tensor.to(where) for tensor in tensors], dim, out=out_tensor)


# --- torch.cuda.nccl, between the devices of this process ---------------------

# In the order of NCCL's numbers.
_OPERATIONS = "add", "mul", "maximum", "minimum"


def _reduced(inputs: Sequence[Tensor], op: int, device: torch.device) -> Tensor:
    if not 0 <= op < len(_OPERATIONS):
        raise RuntimeError(f"op must be in [0, {len(_OPERATIONS)}), but is {op}")
    combine = getattr(torch, _OPERATIONS[op])
    return functools.reduce(combine, [tensor.to(device) for tensor in inputs])


@contextlib.contextmanager
def _under(streams: Sequence[Any] | None) -> Iterator[None]:
    """All streams are current at once, each on its device: a copy between two devices
    waits for what both have queued."""
    with contextlib.ExitStack() as stack:
        for stream in streams or ():
            stack.enter_context(torch.cuda.stream(stream))
        yield


def _nccl_reduce(
    inputs: Sequence[Tensor],
    output: Tensor,
    root: int,
    op: int,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    with _under(streams):
        output.copy_(_reduced(inputs, op, output.device))


def _nccl_all_reduce(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    op: int,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    with _under(streams):
        # Outputs may be the inputs.
        results = [_reduced(inputs, op, output.device) for output in outputs]
        for output, result in zip(outputs, results):
            output.copy_(result)


def _nccl_broadcast(
    tensors: Sequence[Tensor],
    root: int,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    with _under(streams):
        for place, tensor in enumerate(tensors):
            if place != root:
                tensor.copy_(tensors[root])


def _nccl_all_gather(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    with _under(streams):
        for output in outputs:
            parts = [tensor.to(output.device).flatten() for tensor in inputs]
            output.copy_(torch.cat(parts).view_as(output))


def _nccl_reduce_scatter(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    op: int,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    with _under(streams):
        for place, output in enumerate(outputs):
            parts = [tensor.flatten().chunk(len(outputs))[place] for tensor in inputs]
            output.copy_(_reduced(parts, op, output.device).view_as(output))


NAMES = {
    "_broadcast": _broadcast,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_broadcast_out": _broadcast_out,
    "_gather": _gather,
    "_gather_out": _gather_out,
    "_nccl_all_gather": _nccl_all_gather,
    "_nccl_all_reduce": _nccl_all_reduce,
    "_nccl_broadcast": _nccl_broadcast,
    "_nccl_reduce": _nccl_reduce,
    "_nccl_reduce_scatter": _nccl_reduce_scatter,
    "_scatter": _scatter,
    "_scatter_out": _scatter_out,
}
