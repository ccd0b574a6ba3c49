"""Autocast, for programs that name the device in the module."""

import torch
from typing_extensions import deprecated

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """``torch.amp.autocast("openreg", ...)``, to be used instead."""

    # Here and not on the class: the signature stays in sight.
    @deprecated(
        "`torch.openreg.amp.autocast(args...)` is deprecated. "
        "Please use `torch.amp.autocast('openreg', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,
    ):
        super().__init__("openreg", dtype, enabled, cache_enabled)


@deprecated(
    "`torch.openreg.amp.custom_fwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_fwd(args..., device_type='openreg')` instead.",
    category=FutureWarning,
)
def custom_fwd(fwd=None, *, cast_inputs=None):
    """``torch.amp.custom_fwd`` for this device."""
    return torch.amp.custom_fwd(fwd, device_type="openreg", cast_inputs=cast_inputs)


@deprecated(
    "`torch.openreg.amp.custom_bwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_bwd(args..., device_type='openreg')` instead.",
    category=FutureWarning,
)
def custom_bwd(bwd):
    """``torch.amp.custom_bwd`` for this device."""
    return torch.amp.custom_bwd(bwd, device_type="openreg")
