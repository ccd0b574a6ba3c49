"""Tells how operators run on openreg.

    python -m torch_openreg.ops [--tier TIER] [--waits] [PATTERN ...]

Each line has an operator, the tier that serves it, and whether its work is queued
or the host waits for it, unless it has none or is made of other operators. A pattern is part of a name: `conv`, `aten::add.`.
"""

import argparse
import re
import sys
from typing import NamedTuple

import torch

# Where a kernel was registered says which tier it belongs to.
TIERS = {
    "OpenRegMinimal": ("by hand", "queues"),
    "OpenRegExtra": ("by hand", "queues"),
    "Operators_": ("structured", "queues"),
    "Remembered_": ("remembered", "queues"),
    "Waiting_": ("typed", "waits"),
    "OpenRegExecutor": ("boxed", "waits"),
    "Composite": ("composite", "as its parts"),
}

# Of those written by hand, the ones that launch nothing or do not queue.
BY_HAND = {
    "aten::_local_scalar_dense": "waits",
    "aten::sub.Tensor": "waits",
    **dict.fromkeys(
        (
            "aten::_thnn_fused_gru_cell",
            "aten::_thnn_fused_gru_cell_backward",
            "aten::_thnn_fused_lstm_cell",
            "aten::_thnn_fused_lstm_cell_backward_impl",
            "aten::native_dropout",
            "aten::native_dropout_backward",
        ),
        "as its parts",
    ),
    **dict.fromkeys(
        (
            "aten::_efficientzerotensor",
            "aten::_fused_sdp_choice",
            "aten::_has_compatible_shallow_copy_type",
            "aten::_reshape_alias",
            "aten::as_strided",
            "aten::empty.memory_format",
            "aten::empty_strided",
            "aten::is_set_to",
            "aten::record_stream",
            "aten::set_.source_Storage",
            "aten::set_.source_Storage_storage_offset",
            "aten::set_.source_Tensor",
            "aten::unfold",
            "aten::view",
            "aten::view_as_complex",
            "aten::view_as_real",
        ),
        "nothing to run",
    ),
}


class Operator(NamedTuple):
    name: str
    tier: str
    runs: str


def describe(name: str) -> Operator | None:
    """The operator of that name; None if openreg does not run it."""
    table = torch._C._dispatch_dump_table(name)
    line = re.search(r"^PrivateUse1: (.*)$", table, re.MULTILINE)
    where = line[1] if line else ""
    if "[backend fallback]" in where:
        runs = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")
        return Operator(name, "fallback", "waits") if runs else None
    for mark, (tier, runs) in TIERS.items():
        if mark in where:
            return Operator(name, tier, BY_HAND.get(name, runs))
    return None


def operators(patterns: list[str] = ()) -> list[Operator]:
    """All operators whose name has one of the patterns in it."""
    names = sorted(
        name
        for name in torch._C._dispatch_get_all_op_names()
        if not patterns or any(pattern in name for pattern in patterns)
    )
    described = (describe(name) for name in names)
    return [operator for operator in described if operator]


def main(arguments: list[str]) -> int:
    tiers = sorted({tier for tier, _ in TIERS.values()} | {"fallback"})
    parser = argparse.ArgumentParser(
        prog="python -m torch_openreg.ops",
        description="Tells how operators run on openreg.",
    )
    parser.add_argument("pattern", nargs="*", help="part of a name")
    parser.add_argument("--tier", choices=tiers, help="only this tier")
    parser.add_argument(
        "--waits", action="store_true", help="only those the host waits for"
    )
    options = parser.parse_args(arguments)
    found = [
        operator
        for operator in operators(options.pattern)
        if options.tier in (None, operator.tier)
        and (not options.waits or operator.runs == "waits")
    ]
    if not found:
        print("no such operator", file=sys.stderr)
        return 1
    width = max(len(operator.name) for operator in found)
    for operator in found:
        print(f"{operator.name:{width}}  {operator.tier:10}  {operator.runs}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
