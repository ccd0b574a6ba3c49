"""Tells how operators run on openreg.

    python -m torch_openreg.ops [PATTERN ...] [--tier TIER] [--queues] [--waits]
                                [--key KEY] [--format text|markdown|json]

Each row has an operator, the tier that serves it, and how it runs:

- queues: the call returns, and the work is done in stream order;
- waits: the host waits for its stream, then for the work;
- as its parts: it is made of other operators, and these are listed as well;
- nothing to run: it changes or tells how a tensor looks, or makes one;
- unknown: the kernel is another library's, or not for dense tensors.

A pattern is part of a name (`conv`, `aten::add.`) or, with a `*`, a `?` or a `[`,
the whole of one (`aten::*_backward`).
"""

import argparse
import fnmatch
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

#: The kinds of tensors an operator can have kernels for, by their dispatch key.
KEYS = (
    "PrivateUse1",
    "SparsePrivateUse1",
    "SparseCsrPrivateUse1",
    "QuantizedPrivateUse1",
    "NestedTensorPrivateUse1",
)
DENSE = KEYS[0]

# The file that registers a kernel says which tier it belongs to.
TIERS = {
    "Structured_": ("structured", "queues"),
    "Cached": ("cached", "queues"),
    "Waiting": ("waiting", "waits"),
    "Shared": ("shared", "as its parts"),
    "OpenRegExecutor": ("boxed", "waits"),
    "OpenReg": ("by hand", "queues"),
}
# PyTorch says it of the kernels that it fills in by itself.
COMPOSITE = {"math kernel", "default backend kernel", "nested kernel"}
ALL_TIERS = (
    *("by hand", "structured", "cached", "waiting", "shared", "boxed"),
    *("fallback", "composite", "other"),
)

# Of those written by hand, the ones that launch nothing or do not queue.
BY_HAND = {
    "aten::_local_scalar_dense": "waits",
    "aten::histc": "waits",  # but for integers
    "aten::histc.out": "waits",
    "aten::vdot": "waits",
    **dict.fromkeys(
        (
            "aten::gru.data",
            "aten::gru.input",
            "aten::gru_cell",
            "aten::lstm.data",
            "aten::lstm.input",
            "aten::lstm_cell",
            "aten::native_dropout",
            "aten::native_dropout_backward",
            "aten::relu",
            "aten::relu_",
            "aten::rnn_relu.data",
            "aten::rnn_relu.input",
            "aten::rnn_tanh.data",
            "aten::rnn_tanh.input",
            "openreg::custom_abs",
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


# --- what there is --------------------------------------------------------------


def describe(name: str, key: str = DENSE) -> Operator | None:
    """The operator of that name, for tensors of that key; None if openreg does
    not run it."""
    table = torch._C._dispatch_dump_table(name)
    line = re.search(rf"^{key}: (.*) \[([\w ]+)\]$", table, re.MULTILINE)
    if not line:
        return None
    where, kind = line.groups()
    if kind == "backend fallback":
        cpu = key.replace("PrivateUse1", "CPU")
        runs = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, cpu)
        return Operator(name, "fallback", "waits") if runs else None
    if kind in COMPOSITE:
        return Operator(name, "composite", "as its parts")
    for file, (tier, runs) in TIERS.items():
        if f"/{file}" in where:
            if tier == "by hand":
                runs = BY_HAND.get(name, runs) if key == DENSE else "unknown"
            return Operator(name, tier, runs)
    return Operator(name, "other", "unknown")


def matches(name: str, pattern: str) -> bool:
    if any(letter in pattern for letter in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return pattern in name


def operators(
    patterns: Iterable[str] = (),
    *,
    tiers: Iterable[str] = (),
    runs: Iterable[str] = (),
    key: str = DENSE,
) -> list[Operator]:
    """All operators that match one of the patterns, are of one of the tiers and
    run in one of the ways; an empty filter lets everything pass."""
    names = sorted(
        name
        for name in torch._C._dispatch_get_all_op_names()
        if not patterns or any(matches(name, pattern) for pattern in patterns)
    )
    return [
        operator
        for operator in map(functools.partial(describe, key=key), names)
        if operator
        and (not tiers or operator.tier in tiers)
        and (not runs or operator.runs in runs)
    ]


# --- how it is written ------------------------------------------------------------


def text(found: list[Operator]) -> str:
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    return "\n".join(
        "  ".join(map(str.ljust, operator, widths)).rstrip() for operator in found
    )


def markdown(found: list[Operator]) -> str:
    rows = (f"| `{name}` | {tier} | {runs} |" for name, tier, runs in found)
    return "\n".join(["| operator | tier | runs |", "| --- | --- | --- |", *rows])


def as_json(found: list[Operator]) -> str:
    return json.dumps([operator._asdict() for operator in found], indent=1)


FORMATS: dict[str, Callable[[list[Operator]], str]] = {
    "text": text,
    "markdown": markdown,
    "json": as_json,
}


# --- the command ------------------------------------------------------------------


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m torch_openreg.ops",
        description="Tells how operators run on openreg.",
    )
    add = parser.add_argument
    add("pattern", nargs="*", help="part of a name; with * ? [ a whole name")
    add("--tier", action="append", choices=ALL_TIERS, help="only this tier, or these")
    add("--key", choices=KEYS, default=DENSE, help="kind of tensors, %(default)s")
    add("--format", choices=FORMATS, default="text")
    for way, help in (
        ("queues", "only those that are queued"),
        ("waits", "only those the host waits for"),
    ):
        add(f"--{way}", dest="runs", action="append_const", const=way, help=help)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    found = operators(
        options.pattern,
        tiers=options.tier or (),
        runs=options.runs or (),
        key=options.key,
    )
    if not found:
        print("no such operator", file=sys.stderr)
        return 1
    try:
        print(FORMATS[options.format](found), flush=True)
    except BrokenPipeError:  # whoever reads has read enough, like `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
