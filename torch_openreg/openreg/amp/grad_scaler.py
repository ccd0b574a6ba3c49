"""The gradient scaler, for programs that name the device in the module."""

import torch
from typing_extensions import deprecated

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("openreg", ...)``, to be used instead."""

    @deprecated(
        "`torch.openreg.amp.GradScaler(args...)` is deprecated. "
        "Please use `torch.amp.GradScaler('openreg', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "openreg",
            init_scale,
            growth_factor,
            backoff_factor,
            growth_interval,
            enabled,
        )
