"""The name of the device in this process."""

import os

# OPENREG_AS: `openreg`; with `cuda`, the device takes the place of CUDA in a PyTorch
# that was built without it; see [CUDA scripts](cuda.md). Read before torch is imported.
# Default: `openreg`.
NAME: str = os.environ.get("OPENREG_AS") or "openreg"

if NAME not in ("openreg", "cuda"):
    raise RuntimeError(
        f"OPENREG_AS is '{NAME}', but it must be openreg or cuda: set it to one of "
        "them, or unset it"
    )

#: Whether the device stands in CUDA's place.
IS_CUDA: bool = NAME == "cuda"

#: For sentences.
A_NAME: str = "a cuda" if IS_CUDA else "an openreg"
