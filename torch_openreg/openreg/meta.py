"""Shapes of our own operators, for fake and meta tensors and for the compiler.

The kernels are in csrc/aten/native/Extra.cpp.
"""

import torch


# docs:begin meta-kernel
@torch.library.register_fake("openreg::custom_abs")
def _(input: torch.Tensor) -> torch.Tensor:
    real = input.dtype.to_real() if input.is_complex() else input.dtype
    return torch.empty_like(input, dtype=real)


# docs:end meta-kernel
