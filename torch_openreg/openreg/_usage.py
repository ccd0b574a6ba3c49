"""How busy a device is: the figures that NVIDIA's management library has for a GPU."""

import os

from torch.types import Device

from torch_openreg import _C

from ._device import _existing, get_device_properties
from ._lazy import _lazy_init


def utilization(device: Device = None) -> int:
    """The percentage of time in which a device runs work of this process.

    Takes a sample of about 20 milliseconds, during which the calling thread waits.
    """
    _lazy_init()
    return _C._getUtilization(_existing(device, "device"))


def memory_usage(device: Device = None) -> int:
    """The percentage of time in which a device reads or writes its memory.

    It equals :func:`utilization`, because all work of a device made of software uses
    memory.
    """
    return utilization(device)


def device_memory_used(device: Device = None) -> int:
    """How much memory of a device is in use, cached memory included, in bytes."""
    _lazy_init()
    free, total = _C._memGetInfo(_existing(device, "device"))
    return total - free


def clock_rate(device: Device = None) -> int:
    """The clock of a device in MHz, in whose cycles :func:`_sleep` counts."""
    return get_device_properties(device).clock_rate // 1000


def list_gpu_processes(device: Device = None) -> str:
    """The processes that use a device and their memory, as a text to print.

    A device belongs to one process, so it is this one or none.
    """
    _lazy_init()
    index = _existing(device, "device")
    used = device_memory_used(index)
    if used == 0:
        return f"GPU:{index}\nno processes are running"
    mebibytes = used / (1 << 20)
    return (
        f"GPU:{index}\nprocess {os.getpid():>10d} uses {mebibytes:>12.3f} MB GPU memory"
    )
