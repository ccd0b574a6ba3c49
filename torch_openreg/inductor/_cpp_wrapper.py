"""The C++ code that Inductor writes around kernels with ``cpp_wrapper``.

It is the CPU's, but for three things. Tensors are made on the device. Kernels are
libraries of their own, as for Python's wrapper, which it finds by a key and launches.
And operators are called through the dispatcher: ``aoti_torch_cpu_addmm_out()`` becomes
``aoti_torch_openreg_addmm_out()``, which tools/shims.py wrote.
"""

import ctypes
import functools
import hashlib
import re
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch._inductor.codegen import cpp_utils
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.utils import parallel_num_threads

import torch_openreg
from torch_openreg import _names
from torch_openreg._device_name import NAME

from ._devices import device_behind

_SHIM = re.compile(r"\baoti_torch_cpu_(\w+)(?=\()")
_DEVICE = re.compile(r"device\(type='cpu', index=(\d+)\)")
_DEVICE_NAME = re.compile(r"device='cpu:(\d+)'")
_LOAD = "inductor_entry = CppWrapperCodeCache.load_pybinding("

_HEAD = """
#include <cstring>

struct openreg_argument {
    AtenTensorHandle tensor;
    uint64_t number;
};
extern "C" const void* openreg_find_kernel(const char* key);
extern "C" void openreg_launch(
    const void* kernel, const openreg_argument* arguments, size_t count);

inline openreg_argument openreg_tensor(AtenTensorHandle tensor) {
    return {tensor, 0};
}
template <class T>
openreg_argument openreg_number(T value) {
    openreg_argument argument{nullptr, 0};
    std::memcpy(&argument.number, &value, sizeof(T));
    return argument;
}
"""

_PYTHON = """
from torch._inductor.async_compile import AsyncCompile
from torch_openreg.inductor._cpp_wrapper import library
from torch_openreg.inductor._kernels import openreg_kernel

async_compile = AsyncCompile()
"""
_WAIT = "\nasync_compile.wait(globals())\ndel async_compile\n"


def library() -> str:
    """What the code is linked with. It is in the process already, and found by its
    name, not by this path."""
    return str(Path(torch_openreg.__file__).parent / "lib" / "libtorch_openreg.so")


@functools.cache
def _has_function(name: str) -> bool:
    return hasattr(ctypes.CDLL(library()), name)


def name_devices(code: str) -> str:
    """Python that says ``cpu:<index>``, in the names of the device."""
    text = _DEVICE.sub(rf"device(type='{NAME}', index=\1)", code)
    return _DEVICE_NAME.sub(rf"device='{NAME}:\1'", text)


def _rename(shim: re.Match[str]) -> str:
    name = f"aoti_torch_openreg_{shim[1]}"
    if not _has_function(name):
        raise NotImplementedError(
            f"cpp_wrapper on openreg: Inductor calls the CPU's function {shim[0]}(), "
            "which has no counterpart for the device. Compile without cpp_wrapper, or "
            "keep the operator out with torch.compiler.disable."
        )
    return name


@_names.overrides(CppWrapperCpu)
class OpenRegCppWrapper(CppWrapperCpu):
    """The code of a graph, and of those within it."""

    def __init__(self) -> None:
        self._kernels: list[str] = []
        super().__init__()
        self.needs_vec_isa = False  # kernels have libraries of their own

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> "OpenRegCppWrapper":
        return OpenRegCppWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.header.splice(_HEAD)

    def codegen_device(self, device: torch.device) -> str:
        return super().codegen_device(device_behind(device))

    def generate_fallback_kernel_with_runtime_lookup_boxed(
        self, op_overload: Any, raw_args: Any, *args: Any
    ) -> None:
        moved = [
            device_behind(value) if isinstance(value, torch.device) else value
            for value in raw_args
        ]
        super().generate_fallback_kernel_with_runtime_lookup_boxed(
            op_overload, moved, *args
        )

    def _define_kernel_helper(
        self,
        kernel_name: str,
        kernel_body: str,
        metadata: str | None = None,
        gpu: bool = False,
        cpp_definition: str | None = None,
    ) -> None:
        assert cpp_definition is not None, kernel_name
        parameters = cpp_definition[cpp_definition.index("(") + 1 :].rpartition(")")[0]
        types = [
            parameter.rsplit(maxsplit=1)[0].strip()
            for parameter in parameters.split(",")
            if parameter.strip()
        ]
        source = re.sub(rf"\b{kernel_name}\b", "kernel", kernel_body)
        threads = parallel_num_threads()
        key = hashlib.sha256(f"{kernel_name} {threads} {source}".encode()).hexdigest()
        self._kernels.append(
            f"{kernel_name} = openreg_kernel(async_compile, {kernel_name!r}, {threads}, "
            f"{types!r}, r'''\n{source}\n''', {key!r})\n"
        )
        self.header.splice(
            f"""
            static const void* {kernel_name}() {{
                static const void* kernel = openreg_find_kernel("{key}");
                return kernel;
            }}
            """
        )

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: Any, *, arg_types: Any = None, **_: Any
    ) -> None:
        arguments = [
            f"openreg_tensor({argument})"
            if "*" in kind
            else f"openreg_number<{kind.removeprefix('const ')}>({argument})"
            for argument, kind in zip(call_args, arg_types, strict=True)
        ]
        count = len(arguments)
        array = f"std::array<openreg_argument, {count}>{{{', '.join(arguments)}}}"
        self.writeline(f"openreg_launch({kernel_name}(), {array}.data(), {count});")

    def codegen_cuda_stream_enter(self, stream_idx: int) -> NoReturn:
        raise NotImplementedError(
            "cpp_wrapper on openreg: streams inside of compiled code are Python's; "
            "compile without cpp_wrapper, or choose the stream outside"
        )

    def generate(self, is_inference: bool) -> Any:
        code, declarations = super().generate(is_inference)
        text = code.value
        shims = sorted({shim[0] for shim in _SHIM.finditer(text)})
        declared = "".join(
            f'extern "C" decltype({shim}) {_SHIM.sub(_rename, f"{shim}(")[:-1]};\n'
            for shim in shims
        )
        text = _SHIM.sub(_rename, text)
        text = name_devices(_names.swap(text, _HEAD.strip(), _HEAD + declared))
        text = _names.swap(text, "extra_flags=(", "extra_flags=(library(), ")
        kernels = "".join([_PYTHON, *self._kernels, "\n"])
        code.value = _names.swap(text, _LOAD, kernels + _LOAD) + _WAIT
        return code, declarations


def register_device_name() -> None:
    """The name of the device in C++."""
    cpp_utils.DEVICE_TO_ATEN.setdefault(NAME, "at::kPrivateUse1")
