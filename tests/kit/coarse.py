"""A backend that is not openreg in spirit: one device, no streams, no float64, and
products of about three digits. Underneath it is openreg, with OPENREG_DEVICE_COUNT=1;
tests/kit/coarse.toml declares the rest.
"""

import torch
import torch_openreg

from kit.defects import kernel

__all__ = ["torch_openreg"]


def refuse(*args, **kwargs):
    raise RuntimeError("the chip has one stream")


torch.Stream = refuse
torch.accelerator.set_stream = refuse


def checked(name):
    @kernel(name)
    def empty(real, *args, dtype=None, **options):
        if dtype in (torch.float64, torch.complex128):
            raise RuntimeError(f"the chip has no {dtype}; use float32")
        return real(*args, dtype=dtype, **options)


def rounded(name):
    @kernel(name)
    def product(real, *args, **kwargs):
        found = real(*args, **kwargs)
        return found.mul(1.003) if found.is_floating_point() else found


for _name in ("empty.memory_format", "empty_strided"):
    checked(_name)
for _name in ("mm", "addmm", "bmm"):
    rounded(_name)
