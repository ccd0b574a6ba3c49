"""What a test can ask of a block of code."""

import contextlib
import re
from collections.abc import Iterator

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def to_bytes(size: int | str) -> int:
    """Bytes of ``"1.2GiB"``, ``"512MiB"`` or a plain number."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]iB|B)?\s*", size)
    if not match:
        raise ValueError(
            f"expected bytes or a number with KiB, MiB, GiB or TiB, such as '1.2GiB', but "
            f"got {size!r}"
        )
    return int(float(match[1]) * _UNITS[match[2] or ""])


@contextlib.contextmanager
def assert_peak_below(limit: int | str, device=None) -> Iterator[None]:
    """Fail if tensors take ``limit`` or more of a device's memory at any time in a block.

    What is allocated before the block counts.

    Args:
        limit: bytes, or a size such as ``"1.2GiB"``
        device: the current device by default
    """
    from torch_openreg.openreg import memory

    most = to_bytes(limit)
    memory.reset_peak_memory_stats(device)
    yield
    peak = memory.max_memory_allocated(device)
    if peak >= most:
        raise AssertionError(
            f"the block took {peak} bytes ({peak / (1 << 20):.1f} MiB) of device memory at "
            f"its peak, not less than {limit}; torch_openreg.memory shows what held it"
        )


@contextlib.contextmanager
def no_sync() -> Iterator[None]:
    """Fail where a block makes the host wait for the device: the line that does raises.

    Built on ``set_sync_debug_mode("error")``, which is for all threads.
    """
    from torch_openreg.openreg import get_sync_debug_mode, set_sync_debug_mode

    before = get_sync_debug_mode()
    set_sync_debug_mode("error")
    try:
        yield
    finally:
        set_sync_debug_mode(before)
