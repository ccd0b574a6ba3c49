"""Tables of what the installed torch has.

    <!-- stubs-table -->
    <!-- kinds-table -->

`stubs-table` lists the stubs that a PrivateUse1 backend can register, from torch's
headers; `kinds-table` counts PyTorch's operators by what a backend has to do for
them, and lists those it has to write, from the table in torch's wheel.
"""

import ctypes
import re
from collections import defaultdict
from pathlib import Path

import torch
import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

INCLUDE = Path(torch.__file__).parent / "include"
LIBRARY = ctypes.CDLL(str(INCLUDE.parent / "lib" / "libtorch_cpu.so"))
TABLE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"

KINDS = {
    "composite implicit": "nothing: made of other operators, autograd included",
    "composite explicit": "nothing: made of other operators; its gradient is PyTorch's",
    "structured": "the `out` kernel; the functional and in-place forms are made of it",
    "needs a kernel": "a kernel, or the fallback",
}


def declarations(text):
    """(type of the kernel, stub) of each DECLARE_DISPATCH in a header."""
    for start in re.finditer(r"^ *DECLARE_DISPATCH\(", text, re.M):
        end, depth = start.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        kind, _, name = text[start.end() : end - 1].rpartition(",")
        yield " ".join(kind.split()), name.strip()


def is_exported(stub):
    """Whether libtorch_cpu has it: some are of CUDA's library alone."""
    return hasattr(LIBRARY, f"_ZN2at6native{len(stub)}{stub}E")


def stubs():
    """Header -> {stub: type of its kernel}."""
    found = {}
    for header in sorted(INCLUDE.glob("ATen/native/**/*.h")):
        names = {
            name: kind
            for kind, name in declarations(header.read_text())
            if is_exported(name)
        }
        if names:
            found[str(header.relative_to(INCLUDE))] = names
    return found


def kind_of(function):
    if function.structured or function.structured_delegate:
        return "structured"
    if function.has_composite_implicit_autograd_kernel:
        return "composite implicit"
    if (
        function.has_composite_explicit_autograd_kernel
        or function.has_composite_explicit_autograd_non_functional_kernel
    ):
        return "composite explicit"
    return "needs a kernel"


def kinds():
    """Kind -> the operators of it, as (name, whether it is core ATen)."""
    parsed = parse_native_yaml(TABLE / "native_functions.yaml", TABLE / "tags.yaml")
    found = defaultdict(list)
    for function in parsed.native_functions:
        cpu = DispatchKey.CPU in {
            key
            for key, index in parsed.backend_indices.items()
            if index.has_kernel(function)
        }
        if kind_of(function) == "needs a kernel" and not cpu:
            continue  # of other layouts or devices
        found[kind_of(function)].append(
            (str(function.func.name), "core" in function.tags)
        )
    return {kind: sorted(found[kind]) for kind in KINDS}


def stubs_table():
    rows = ["| stub | kernel | header |", "| --- | --- | --- |"]
    for header, names in stubs().items():
        rows += [
            f"| `{name}` | `{kind}` | `{header}` |" for name, kind in names.items()
        ]
    return "\n".join(rows)


def kinds_table():
    rows = ["| kind | operators | of them core ATen | what a backend does |"]
    rows.append("| --- | ---: | ---: | --- |")
    found = kinds()
    for kind, names in found.items():
        core = sum(is_core for _, is_core in names)
        rows.append(f"| {kind} | {len(names)} | {core} | {KINDS[kind]} |")
    rows += ["", "| operator | kind | core ATen |", "| --- | --- | --- |"]
    for kind, names in found.items():
        rows += [
            f"| `{name}` | {kind} | {'yes' if core else ''} |" for name, core in names
        ]
    return "\n".join(rows)
