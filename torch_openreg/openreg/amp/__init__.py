"""Mixed precision under the names of ``torch.cuda.amp``.

``torch.amp`` takes the device as an argument and has replaced them.
"""

from .autocast_mode import autocast, custom_bwd, custom_fwd
from .common import amp_definitely_not_available
from .grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "amp_definitely_not_available",
    "autocast",
    "custom_bwd",
    "custom_fwd",
]
