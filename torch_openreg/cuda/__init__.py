"""Programs written for CUDA, unchanged, on a machine without a GPU.

In a PyTorch that was built without CUDA the places for it are there and empty. With
``OPENREG_AS=cuda`` in the environment the device takes them: ``torch.cuda`` works, and
``torch.ones(2, device="cuda")`` is a tensor of this device.

    python -m torch_openreg.cuda train.py --epochs 3

does that for a program and all processes that it starts; :func:`enable` does it for
what follows in a running Python that has not imported torch yet.

Nothing here imports torch: this comes before it. See docs/cuda.md.
"""

from ._start import enable

__all__ = ["enable"]
