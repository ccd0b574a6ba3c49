"""Writes the functions that Inductor's C++ wrappers call for operators.

    python tools/shims.py FOLDER    (writes Shims.cpp)

Such a wrapper calls ``aoti_torch_cpu_addmm_out()`` and others like it, which go to the
CPU's kernel without asking the dispatcher. What is written here has the same parameters
and the name ``aoti_torch_openreg_addmm_out()``, and calls the operator.
"""

import sys
from pathlib import Path

from generate_operators import parse, write
from torchgen.aoti.fallback_ops import inductor_fallback_ops
from torchgen.context import native_function_manager
from torchgen.gen_aoti_c_shim import (
    gen_declaration_and_definition,
    gen_static_dispatch_backend_call,
    get_backend_index_for_aoti,
    get_fallback_op_name,
)
from torchgen.gen import get_grouped_native_functions
from torchgen.model import DispatchKey, NativeFunctionsGroup, Variant

_TO_CODE = "AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({"


def _definition(function, call):
    """C++ of the shim, in all its versions; None for what torchgen does not know to
    write, nor wrote for the CPU."""
    versions = inductor_fallback_ops[get_fallback_op_name(function)]
    try:
        _, text = gen_declaration_and_definition(
            function.func, "openreg", call, versions
        )
    except NotImplementedError:
        return None
    text = text.replace(_TO_CODE, "return callOperator([&] {")
    return text.replace(
        "AOTITorchError aoti_", 'extern "C" C10_EXPORT AOTITorchError aoti_'
    )


def shims(parsed):
    """(root name, definition) of each function."""
    delegates = {
        function.structured_delegate: group
        for group in get_grouped_native_functions(parsed.native_functions)
        if isinstance(group, NativeFunctionsGroup)
        for function in group.functions()
        if function.structured_delegate is not None
    }
    for function in parsed.native_functions:
        if get_fallback_op_name(function) not in inductor_fallback_ops:
            continue
        with native_function_manager(function):
            of_cpu = get_backend_index_for_aoti(
                function, delegates, DispatchKey.CPU, parsed.backend_indices, False
            )
            call = gen_static_dispatch_backend_call(function)
            if Variant.function not in function.variants:
                call = f"at::_ops::{function.func.name.unambiguous_name()}::call"
            definition = of_cpu and _definition(function, call)
        if definition:
            yield function.root_name, definition


def source(parsed):
    rows = sorted(shims(parsed))
    includes = [
        f"#include <ATen/ops/{root}.h>" for root in sorted({r for r, _ in rows})
    ]
    return "\n".join(
        [
            "// Written by tools/shims.py.",
            '#include "executor/CompiledCalls.h"',
            *includes,
            "#include <torch/csrc/inductor/aoti_torch/utils.h>",
            "",
            "// the length of a mask that has a known one",
            '#pragma GCC diagnostic ignored "-Wunused-parameter"',
            "",
            "using namespace torch::aot_inductor;",
            "using at::native::openreg::callOperator;",
            "",
            *(definition for _, definition in rows),
        ]
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "Shims.cpp", source(parse()))
