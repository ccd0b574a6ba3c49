"""The allocator's figures as a table, drawn as torch.cuda.memory_summary() does."""

from collections.abc import Mapping

_WIDTH = 75


def _scale(number: int, leader: int, step: int, most: int, units: int):
    """The number in the unit that suits the first row, and which unit that is."""
    unit = 0
    while leader >= most and unit + 1 < units:
        number, leader, unit = number // step, leader // step, unit + 1
    return number, unit


def _size(number: int, leader: int) -> str:
    names = ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"]
    number, unit = _scale(number, leader, 1024, 768 * 1024, len(names))
    return f"{number:6d} {names[unit]}"


def _count(number: int, leader: int) -> str:
    names = " KM"
    number, unit = _scale(number, leader, 1000, 750 * 1000, len(names))
    return f"{number:7d} {names[unit]} "


_FIGURES = [
    ("allocated_bytes", "Allocated memory", _size),
    ("active_bytes", "Active memory", _size),
    ("requested_bytes", "Requested memory", _size),
    ("reserved_bytes", "GPU reserved memory", _size),
    ("inactive_split_bytes", "Non-releasable memory", _size),
    ("allocation", "Allocations", _count),
    ("active", "Active allocs", _count),
    ("segment", "GPU reserved segments", _count),
    ("inactive_split", "Non-releasable allocs", _count),
]
_POOLS = [
    ("large_pool", "      from large pool"),
    ("small_pool", "      from small pool"),
]
_WHOLE_FIGURES = [
    ("oversize_allocations", "Oversize allocations"),
    ("oversize_segments", "Oversize GPU segments"),
]
_COLUMNS = ["current", "peak", "allocated", "freed"]


def summary(stats: Mapping[str, int], device: int, abbreviated: bool) -> str:
    """The table for the figures of memory_stats()."""

    def row(title, text, prefix, leader):
        cells = (text(stats[prefix + c], stats[leader + c]) for c in _COLUMNS)
        return f" {title:<21} | " + " | ".join(cells) + " "

    ooms = f"OpenReg OOMs: {stats['num_ooms']}"
    retries = f"orMalloc retries: {stats['num_alloc_retries']}"
    lines = [
        "=" * _WIDTH,
        f"{f'PyTorch OpenReg memory summary, device ID {device}':^{_WIDTH}}",
        "-" * _WIDTH,
        f"{ooms:^37}|{retries:^37}",
        "=" * _WIDTH,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for key, title, text in _FIGURES:
        leader = f"{key}.all."
        lines += ["-" * _WIDTH, row(title, text, leader, leader)]
        if not abbreviated:
            lines += [row(name, text, f"{key}.{p}.", leader) for p, name in _POOLS]
    for key, title in _WHOLE_FIGURES:
        lines += ["-" * _WIDTH, row(title, _count, f"{key}.", f"{key}.")]
    lines.append("=" * _WIDTH)
    return "".join(f"|{line:<{_WIDTH}}|\n" for line in lines)
