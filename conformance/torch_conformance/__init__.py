"""What a PyTorch accelerator backend can do, level by level, and what it misses.

The checks know a device by its name and by PyTorch's public interfaces, nothing
else: `python -m torch_conformance --device mychip`.
"""

__version__ = "0.1"
