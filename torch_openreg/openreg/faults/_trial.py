"""One run of a function: what it returned or raised, and whether it ended at all."""

import gc
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._device import current_device, reset_device, set_device, synchronize
from .._lazy import device_count
from ..memory import memory_allocated


@dataclass
class Outcome:
    """How a run ended; nothing in it holds device memory."""

    result: Any = None
    error: type | None = None
    message: str = ""
    hang: str = ""  # where it hangs

    @property
    def returned(self) -> bool:
        return self.error is None and not self.hang


def run(fn: Callable[[], Any], timeout: float) -> Outcome:
    """Run a function in a thread of its own, and wait until its work is done."""
    outcome = Outcome()
    device = current_device()

    def body() -> None:
        try:
            set_device(device)
            result = fn()
            synchronize_all()
            outcome.result = _to_host(result)
        except BaseException as error:  # whatever it is, it is told
            outcome.error = type(error)
            outcome.message = str(error).split("\n")[0]
            # Frames hold tensors: they must not seem to be leaked.
            traceback.clear_frames(error.__traceback__)

    thread = threading.Thread(target=body, name="explore", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        return Outcome(hang=stack.rstrip() or "it could not be seen where")
    return outcome


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit for bit; NaN equals NaN."""
    left, left_shape = pytree.tree_flatten(a)
    right, right_shape = pytree.tree_flatten(b)
    return left_shape == right_shape and all(map(_same_leaf, left, right))


def _same_leaf(a: Any, b: Any) -> bool:
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return type(a) is type(b) and bool(a == b or (a != a and b != b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    try:
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return False
    return True


def _to_host(result: Any) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda x: x.detach().to("cpu", copy=True), result
    )


def synchronize_all() -> None:
    """Wait for all devices, and raise what failed there."""
    for device in range(device_count()):
        synchronize(device)


def mend() -> None:
    """Take devices that failed back into service."""
    for device in range(device_count()):
        try:
            synchronize(device)
        except torch.AcceleratorError:
            reset_device(device)


def allocated(expected: int = 0) -> int:
    """Bytes that tensors hold, on all devices; not those of garbage.

    Args:
        expected: if there are no more, garbage does not matter and is left alone
    """
    held = sum(map(memory_allocated, range(device_count())))
    if held > expected:
        gc.collect()
        held = sum(map(memory_allocated, range(device_count())))
    return held
