"""Allocations that fail, to see what a program does then."""

from torch_openreg.openreg import faults
from torch_openreg.openreg._utils import _get_device_index


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
        index = _get_device_index(device, optional=True)
        self._plan = faults.plan(f"oom@alloc:{n}:device={index}")
        self.happened = False

    def __enter__(self) -> "FailingAllocation":
        self._plan.__enter__()
        return self

    def __exit__(self, *_) -> None:
        self._plan.__exit__()
        self.happened = bool(self._plan.fired)


def failing_allocation(n: int, device=None) -> FailingAllocation:
    """Let the ``n``-th allocation of a block of code fail, once::

        with torch_openreg.memory.failing_allocation(3) as failure:
            step()  # raises torch.OutOfMemoryError
        failure.happened

    It is short for the :func:`torch.openreg.faults.plan` ``oom@alloc:N:device=D``.

    Args:
        n: counted from 1, on one device, by all threads
        device: the current device by default
    """
    return FailingAllocation(n, device)
