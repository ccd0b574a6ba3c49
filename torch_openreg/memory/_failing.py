"""Allocations that fail, to see what a program does then."""

import torch

from torch_openreg import _C


class FailingAllocation:
    """A context in which an allocation fails, as if the device had no memory.

    Attributes:
        happened: after the context, whether there were that many allocations
    """

    def __init__(self, n: int, device=None):
        if n < 1:
            raise ValueError(
                f"expected the number of an allocation, from 1 on, but got {n}"
            )
        self._n = n
        self._device = torch.openreg._utils._get_device_index(device, optional=True)
        self.happened = False

    def __enter__(self) -> "FailingAllocation":
        _C._failAllocation(self._n, self._device)
        return self

    def __exit__(self, *_) -> None:
        self.happened = _C._failAllocation(0, self._device) == 0


def failing_allocation(n: int, device=None) -> FailingAllocation:
    """Let the ``n``-th allocation of a block of code fail, once::

        with torch_openreg.memory.failing_allocation(3) as failure:
            step()  # raises torch.OutOfMemoryError
        failure.happened

    Args:
        n: counted from 1, on one device, by all threads
        device: the current device by default
    """
    return FailingAllocation(n, device)
