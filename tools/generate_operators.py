"""Writes the registrations that follow from PyTorch's own table of operators.

    python tools/generate_operators.py FOLDER

The table is packaged in the wheel. FOLDER gets
- DeviceChecks.inc: the operators whose tensors must all be on one device, and the
  name of CUDA's wrapper, which stands in the error message;
- Operators_N.cpp: a kernel for every structured operator (csrc/aten/native/
  Structured.h);
- Remembered_N.cpp and Waiting_N.cpp: kernels for the operators in the two parts of
  tools/operators.txt (csrc/aten/native/Remembered.h and Typed.h);
- Shared_N.cpp: kernels for sparse, quantized and nested tensors that PyTorch has in
  common for the CPU and CUDA.
Operators that csrc/aten registers by hand are left out. Files that would not
change are not written.
"""

import re
import sys
from pathlib import Path

import torchgen
from torchgen.api import cpp, meta
from torchgen.api.types import NativeSignature
from torchgen.context import native_function_manager
from torchgen.gen import parse_native_yaml
from torchgen.gen_backend_stubs import DispatchKey
from torchgen.model import DeviceCheckType, NativeFunctionsGroup
from torchgen.utils import concatMap

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = ("Sparse", "SparseCsr", "Quantized", "NestedTensor")


def parse():
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    return parse_native_yaml(
        str(folder / "native_functions.yaml"), str(folder / "tags.yaml")
    )


# --- device checks ------------------------------------------------------------


def wrapper_suffix(function, structured):
    """What follows "wrapper_CUDA_" in the name of the function's wrapper."""
    name = cpp.name(function.func)
    overload = function.func.name.overload_name
    if structured:
        return f"{name}_{overload}" if overload else name
    return f"{overload}_{name}"


def device_checks(parsed):
    cuda = [
        parsed.backend_indices[DispatchKey.parse(f"{layout}CUDA")]
        for layout in ("", *LAYOUTS)
    ]
    for function in parsed.native_functions:
        structured = function.structured or function.structured_delegate is not None
        if function.device_check is DeviceCheckType.NoCheck:
            continue
        if structured or any(index.has_kernel(function) for index in cuda):
            suffix = wrapper_suffix(function, structured)
            yield f'{{"aten::{function.func.name}", "{suffix}"}},'


# --- kernels ------------------------------------------------------------------


def by_hand():
    """Names of aten operators that csrc/aten registers itself."""
    names = set()
    for source in (ROOT / "csrc" / "aten").glob("*.cpp"):
        names |= set(re.findall(r'm\.impl\(\s*"([^"]+)"', source.read_text()))
    return names


def typed_names():
    """(name, section) of each operator in tools/operators.txt"""
    section = None
    for line in (ROOT / "tools" / "operators.txt").read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            yield line, section


def op_class(function):
    return f"at::_ops::{function.func.name.unambiguous_name()}"


def structured_kernels(group):
    """(function, kernel) for each form of a structured operator."""
    count = len(group.out.func.arguments.out)
    shape = f"at::meta::structured_{meta.name(group)}"
    functional, out = op_class(group.functional), op_class(group.out)
    yield group.functional, f"Structured<{functional}, {out}, {shape}, {count}>"
    yield group.out, f"StructuredOut<{out}, {shape}, {count}>"
    if group.inplace:
        inplace = op_class(group.inplace)
        yield group.inplace, f"StructuredInPlace<{inplace}, {shape}>"


def structured(parsed):
    """(root name, operator name, kernel) of each structured operator"""
    groups = [
        group
        for group in torchgen.gen.get_grouped_native_functions(parsed.native_functions)
        if isinstance(group, NativeFunctionsGroup) and group.structured
    ]
    others = {name for name, _ in typed_names()}
    for function, kernel in concatMap(structured_kernels, groups):
        name = str(function.func.name)
        if name not in others:
            yield function.root_name, name, kernel


def listed(parsed, section, template):
    """The same for the operators of one part of tools/operators.txt"""
    functions = {str(f.func.name): f for f in parsed.native_functions}
    for name, its_section in typed_names():
        if its_section == section:
            function = functions[name]
            yield function.root_name, name, f"{template}<{op_class(function)}>"


def shared_kernels(parsed, layout):
    """(root name, operator name, kernel) of what is the same code on all devices"""
    cpu = parsed.backend_indices[DispatchKey.parse(f"{layout}CPU")]
    cuda = parsed.backend_indices[DispatchKey.parse(f"{layout}CUDA")]
    names = {name for name, section in typed_names() if section == "shared"}
    cpus = {name for name, section in typed_names() if section == "not shared"}
    for function in parsed.native_functions:
        kernel = cpu.get_kernel(function)
        if kernel and kernel == cuda.get_kernel(function):
            looks = function.is_view_op or not any(
                r.type.is_tensor_like() for r in function.func.returns
            )
            name = str(function.func.name)
            if (
                name in names
                or (looks or layout == "NestedTensor")
                and name not in cpus
            ):
                with native_function_manager(function):
                    signature = NativeSignature(
                        function.func, symint=kernel.supports_symint()
                    ).ptr_type()
                chosen = f"static_cast<{signature}>(&at::native::{kernel.kernel})"
                key = f"c10::DispatchKey::{layout}PrivateUse1"
                shared = f"Shared<{op_class(function)}, {key}, {chosen}>"
                yield function.root_name, name, shared


def shared_source(parsed):
    rows = {layout: sorted(shared_kernels(parsed, layout)) for layout in LAYOUTS}
    roots = sorted({root for kept in rows.values() for root, _, _ in kept})
    includes = [
        f"#include <ATen/ops/{root}_{s}.h>" for root in roots for s in ("native", "ops")
    ]
    blocks = [
        registrations(f"{layout}PrivateUse1", kept) for layout, kept in rows.items()
    ]
    return translation_unit("Shared.h", includes, concatMap(lambda b: b, blocks))


def source(header, suffixes, rows):
    roots = sorted({root for root, _, _ in rows})
    includes = [f"#include <ATen/ops/{root}_{s}.h>" for root in roots for s in suffixes]
    return translation_unit(header, includes, registrations("PrivateUse1", rows))


def registrations(key, rows):
    return [
        f"TORCH_LIBRARY_IMPL(aten, {key}, m) {{",
        *(
            f'  m.impl("{name}", TORCH_FN(({kernel}::call)));'
            for _, name, kernel in rows
        ),
        "}",
        "",
    ]


def translation_unit(header, includes, lines):
    return "\n".join(
        [
            "// Written by tools/generate_operators.py.",
            f'#include "aten/native/{header}"',
            *includes,
            "#include <torch/library.h>",
            "",
            "namespace at::native::openreg {",
            "",
            *lines,
            "} // namespace at::native::openreg",
            "",
        ]
    )


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(folder):
    folder = Path(folder)
    parsed = parse()
    checks = sorted(device_checks(parsed))
    write(folder / "DeviceChecks.inc", "".join(f"{row}\n" for row in checks))
    remembered = listed(parsed, "remembered", "Remembered")
    waiting = listed(parsed, "waiting", "Typed")
    skip = by_hand()
    # As many files as CMakeLists.txt names.
    for name, header, suffixes, count, rows in (
        ("Operators", "Structured.h", ("meta", "ops"), 12, structured(parsed)),
        ("Remembered", "Remembered.h", ("ops",), 3, remembered),
        ("Waiting", "Typed.h", ("ops",), 1, waiting),
    ):
        kept = sorted(row for row in rows if row[1] not in skip)
        for number in range(count):
            text = source(header, suffixes, kept[number::count])
            write(folder / f"{name}_{number}.cpp", text)
    write(folder / "Shared_0.cpp", shared_source(parsed))


if __name__ == "__main__":
    main(*sys.argv[1:])
