"""Writes the registrations that follow from PyTorch's own table of operators.

    python tools/generate_operators.py FOLDER

The table is packaged in the wheel. FOLDER gets
- DeviceChecks.inc: the operators whose tensors must all be on one device, and the
  name of CUDA's wrapper, which stands in the error message;
- Structured_N.cpp: kernels for every structured operator (csrc/executor/
  StructuredKernel.h);
- Cached.cpp and Waiting.cpp: kernels for the operators in the two parts of
  tools/operators.txt (csrc/executor/OperatorKernel.h);
- Shared.cpp: kernels for sparse, quantized and nested tensors that PyTorch has in
  common for the CPU and CUDA (csrc/executor/SharedKernel.h).
Operators that csrc/aten registers by hand are left out. Files that would not
change are not written.
"""

import re
import sys
from pathlib import Path

import torchgen
from torchgen.api import cpp, structured
from torchgen.api.translate import translate
from torchgen.api.types import (
    BaseCType,
    Expr,
    MutRefCType,
    NamedCType,
    NativeSignature,
    tensorT,
)
from torchgen.context import native_function_manager
from torchgen.gen import parse_native_yaml
from torchgen.gen_backend_stubs import DispatchKey
from torchgen.model import DeviceCheckType, NativeFunctionsGroup, SchemaKind
from torchgen.utils import concatMap

ROOT = Path(__file__).resolve().parent.parent
# Its operators are registered instead of others, if a variable says so.
PHILOX = ROOT / "csrc" / "aten" / "OpenRegPhilox.cpp"
UNLESS_PHILOX = "if (!c10::openreg::drawsPhilox()) "
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
    sources = set((ROOT / "csrc" / "aten").glob("*.cpp")) - {PHILOX}
    return set().union(*map(registered_in, sources))


def registered_in(source):
    return set(re.findall(r'm\.impl\(\s*"([^"]+)"', source.read_text()))


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


# --- structured operators ---------------------------------------------------------


def plain(text):
    return re.sub(r"[^A-Za-z0-9]", "_", text)


def runner(group, kernel):
    """The meta function and the kernel of a group, on arguments without types."""
    with native_function_manager(group.functional):
        arguments = NativeSignature(group.functional.func, symint=False).arguments()
        context = [
            Expr(f"run.get<{a.type}>({place})", a.nctype)
            for place, a in enumerate(arguments)
        ]

        def call(bindings):
            return ", ".join(e.expr for e in translate(context, bindings))

        meta = f"meta({call(structured.meta_arguments(group))})"
        precomputed = group.out.precomputed
        if precomputed:
            meta = f"precompute.emplace({meta})"
            added = concatMap(list, [*precomputed.replace.values(), precomputed.add])
            # What was replaced is gone.
            context = [e for e in context if e.type.name not in precomputed.replace]
            context += [
                Expr(f"precompute->{a.name}", structured.argument_type(a, binds=a.name))
                for a in added
            ]
        context += [
            Expr(
                f"maybe_get_output({place})",
                NamedCType(a.nctype.name, MutRefCType(BaseCType(tensorT))),
            )
            for place, a in enumerate(structured.out_arguments(group))
        ]
        impl = f"impl({call(structured.impl_arguments(group))})"
    name = plain(str(group.out.func.name))
    kept = ["  std::optional<meta_return_ty> precompute;"] if precomputed else []
    return [
        f"struct Run_{name} final",
        f"    : StructuredKernel<at::native::structured_{kernel}> {{",
        "  using StructuredKernel::StructuredKernel;",
        f"  void infer(StructuredRun& run) {{ {meta}; }}",
        f"  void compute(StructuredRun& run) {{ {impl}; }}",
        *kept,
        "};",
    ]


FORMS = {
    SchemaKind.functional: "Functional",
    SchemaKind.inplace: "InPlace",
    SchemaKind.out: "Out",
}


def information(function, out, run):
    """What is known of an operator once it is called."""
    name, _, overload = str(function.func.name).partition(".")
    return [
        f"OperatorInfo& info_{plain(str(function.func.name))}() {{",
        f'  static auto* info = new OperatorInfo("aten::{name}", "{overload}",',
        f"      {out}, &runObject<Run_{run}>);",
        "  return *info;",
        "}",
    ]


def shim(function, group):
    """The function that is registered: it hands over what it is given."""
    kind = function.func.kind()
    with native_function_manager(function):
        signature = NativeSignature(function.func, symint=False)
        parameters = ", ".join(a.decl() for a in signature.arguments())
        result = signature.returns_type().cpp_type()
        arguments = ", ".join(f"argument({a.name})" for a in signature.arguments())
    count = len(group.out.func.arguments.out)
    name = plain(str(function.func.name))
    if kind is SchemaKind.functional:
        outputs, given = f"Tensor outputs[{count}];", []
        value = ", ".join(f"std::move(outputs[{i}])" for i in range(count))
    else:
        given = (
            ["self"]
            if kind is SchemaKind.inplace
            else [a.name for a in function.func.arguments.out]
        )
        outputs = f"BorrowedOutputs outputs({', '.join(given)});"
        value = ", ".join(given)
    if count > 1:
        value = f"{{{value}}}"
    return [
        f"{result} call_{name}({parameters}) {{",
        f"  const Argument arguments[] = {{{arguments}}};",
        f"  {outputs}",
        f"  callStructured(info_{name}(), Form::{FORMS[kind]}, arguments, outputs);",
        f"  return {value};",
        "}",
    ]


def structured_groups(parsed, skip):
    """(root name, registrations, code) of each group of structured operators"""
    others = {name for name, _ in typed_names()} | skip
    cpu = parsed.backend_indices[DispatchKey.CPU]
    for group in torchgen.gen.get_grouped_native_functions(parsed.native_functions):
        if not isinstance(group, NativeFunctionsGroup) or not group.structured:
            continue
        kernel = cpu.get_kernel(group)
        forms = [
            function
            for function in (group.functional, group.inplace, group.out)
            if function and str(function.func.name) not in others
        ]
        if not kernel or not forms:
            continue
        run = plain(str(group.out.func.name))
        code = runner(group, kernel.kernel)
        code += information(group.out, "nullptr", run)
        for function in forms:
            if function is not group.out:
                made = function.func.kind() is SchemaKind.functional
                out = f"&info_{run}()" if made else "nullptr"
                code += information(function, out, run)
            code += shim(function, group)
        names = [str(function.func.name) for function in forms]
        rows = [(name, f"call_{plain(name)}") for name in names]
        yield group.out.root_name, rows, code


def structured_source(groups):
    includes = [
        f"#include <ATen/ops/{root}_native.h>"
        for root in sorted({g[0] for g in groups})
    ]
    rows = [row for _, rows, _ in groups for row in rows]
    code = concatMap(lambda group: [*group[2], ""], groups)
    lines = ["namespace {", "", *code, "} // namespace", ""]
    lines += registrations("PrivateUse1", rows)
    return translation_unit("StructuredKernel.h", includes, lines)


# --- other operators ----------------------------------------------------------------


def listed(parsed, section, template):
    """The same for the operators of one part of tools/operators.txt"""
    functions = {str(f.func.name): f for f in parsed.native_functions}
    for name, its_section in typed_names():
        if its_section == section:
            function = functions[name]
            yield function.root_name, name, f"{template}<{op_class(function)}>::call"


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
                shared = f"SharedKernel<{op_class(function)}, {key}, {chosen}>::call"
                yield function.root_name, name, shared


def shared_source(parsed):
    rows = {layout: sorted(shared_kernels(parsed, layout)) for layout in LAYOUTS}
    roots = sorted({root for kept in rows.values() for root, _, _ in kept})
    includes = [
        f"#include <ATen/ops/{root}_{s}.h>" for root in roots for s in ("native", "ops")
    ]
    blocks = [
        registrations(f"{layout}PrivateUse1", [row[1:] for row in kept])
        for layout, kept in rows.items()
    ]
    return translation_unit("SharedKernel.h", includes, concatMap(lambda b: b, blocks))


def source(rows):
    roots = sorted({root for root, _, _ in rows})
    includes = [f"#include <ATen/ops/{root}_ops.h>" for root in roots]
    includes.append('#include "runtime/OpenRegPhilox.h"')
    lines = registrations("PrivateUse1", [row[1:] for row in rows])
    return translation_unit("OperatorKernel.h", includes, lines)


def registrations(key, rows):
    replaced = registered_in(PHILOX) if key == "PrivateUse1" else ()
    return [
        f"OPENREG_LIBRARY_IMPL(aten, {key}, m) {{",
        *(
            f"  {UNLESS_PHILOX if name in replaced else ''}"
            f'm.impl("{name}", TORCH_FN(({kernel})));'
            for name, kernel in rows
        ),
        "}",
        "",
    ]


def translation_unit(header, includes, lines):
    return "\n".join(
        [
            "// Written by tools/generate_operators.py.",
            f'#include "executor/{header}"',
            *includes,
            '#include "runtime/OpenRegLibrary.h"',
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
    skip = by_hand()
    groups = sorted(structured_groups(parsed, skip))
    # As many files as CMakeLists.txt names.
    for number in range(4):
        text = structured_source(groups[number::4])
        write(folder / f"Structured_{number}.cpp", text)
    for name, section in (("Cached", "cached"), ("Waiting", "waiting")):
        rows = listed(parsed, section, f"{name}Kernel")
        kept = sorted(row for row in rows if row[1] not in skip)
        write(folder / f"{name}.cpp", source(kept))
    write(folder / "Shared.cpp", shared_source(parsed))


if __name__ == "__main__":
    main(*sys.argv[1:])
