"""The sanitizer: see `torch_openreg.sanitizer`."""

from torch_openreg.sanitizer import *  # noqa: F403
from torch_openreg.sanitizer import __all__ as __all__
