"""What the environment says to CUDA, said to the device."""

import os


def translate() -> None:
    """Set our variables as CUDA's say. These are read when the device starts, so a
    program may set them after ``import torch``, as with CUDA."""
    os.environ.setdefault("OPENREG_DEVICE_PROFILE", "sm80")
    # CUDA_VISIBLE_DEVICES: overrides `OPENREG_VISIBLE_DEVICES` in a process that poses
    # as CUDA. Default: all.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        os.environ["OPENREG_VISIBLE_DEVICES"] = _indices(visible)
    # CUDA_LAUNCH_BLOCKING: 1 is `OPENREG_LAUNCH_BLOCKING=1` in a process that poses as
    # CUDA. Default: 0.
    blocking = os.environ.get("CUDA_LAUNCH_BLOCKING")
    if blocking is not None:
        os.environ["OPENREG_LAUNCH_BLOCKING"] = "0" if blocking in ("", "0") else "1"


def _indices(visible: str) -> str:
    """The list as CUDA reads it: it ends where an item is no index, a device named
    twice leaves none, and a GPU's UUID names none that is here."""
    indices: list[str] = []
    for item in visible.split(","):
        digits = item.strip()
        if not digits.isdigit():
            break
        if digits in indices:
            return ""
        indices.append(digits)
    return ",".join(indices)


def workspace_bytes() -> int:
    """How much memory CUBLAS_WORKSPACE_CONFIG (``:SIZE:COUNT`` in KiB, repeated) asks
    for; 0 without it. What a product keeps is up to csrc/executor/LibraryWorkspaces.cpp,
    which reads the variable too."""
    # CUBLAS_WORKSPACE_CONFIG: `:SIZE:COUNT` in KiB, repeated, as for cuBLAS: the memory
    # that a matrix product keeps on a device with the profile of an NVIDIA GPU, and the
    # first value of `torch.backends.cuda.cublas_workspace_size()` in a process that
    # poses as CUDA. Results are deterministic without it. Default: the GPU's.
    numbers = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").split(":")[1:]
    pairs = zip(numbers[::2], numbers[1::2])
    return sum(int(size) * int(count) * 1024 for size, count in pairs)
