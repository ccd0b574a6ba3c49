"""The kernels that Inductor writes, as kernels of the device."""

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch._inductor.async_compile import AsyncCompile, get_compile_threads
from torch._inductor.codecache import CppCodeCache, CppPythonBindingsCodeCache
from torch._inductor.codecache import LambdaFuture
from torch._inductor.utils import clear_on_fresh_cache

from torch_openreg import _C, _names

from ._checks import throw_behind_loops

empty_strided_openreg = _C._emptyStrided
openreg_products = SimpleNamespace(
    mm=_C._mm, bmm=_C._bmm, addmm=_C._addmm, baddbmm=_C._baddbmm
)

_PARALLEL = re.compile(r"#pragma omp parallel( for)?( num_threads\(\d+\))?")
# e_shoff, e_shentsize and e_shnum of the header of a 64-bit library
_ELF = struct.Struct("<40xQ10xHH")
# What takes longer than to load and store an element: nanoseconds of one thread.
_COSTS = {
    re.compile(r"\brandn_cpu\("): 40.0,
    re.compile(r"\b(?:normalized_rand|randint64)_cpu\("): 10.0,
    re.compile(r"\b(?:exp|log|tanh|erf|sin|cos|pow)\w*\("): 1.0,
}
_THREAD_NUMBER = "int tid = omp_get_thread_num();"

# The one function that openreg calls. Each argument is a word.
_ENTRY = """
#include <cstdint>
#include <cstring>
#include <type_traits>

template <class T>
static T openreg_argument(uint64_t word) {{
    std::remove_const_t<T> value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
}}

extern "C" void openreg_run(const uint64_t* words) {{
    kernel({arguments});
}}
"""


def _count_threads(source: str, threads: int) -> tuple[str, int]:
    """The source, and the number of threads that it must run with; 0 for any number.

    A kernel that asks which thread it is, shares its work among just ``threads``. Any
    other one takes as many as the stream gives it.
    """
    if "#pragma omp parallel" not in source:
        return source, 0
    rest = source.replace(_THREAD_NUMBER, "")
    if not re.search(r"\btid\b|omp_get_|num_threads\b(?!\()", rest):
        return _PARALLEL.sub(r"#pragma omp parallel\1", source), 0
    exact = rf"#pragma omp parallel\1 num_threads({threads})"
    return _PARALLEL.sub(exact, source), threads


def _cost(source: str) -> float:
    """How many nanoseconds one thread computes for an element, roughly."""
    found = (cost for call, cost in _COSTS.items() if call.search(source))
    return max(found, default=0.0)


def _letter(argument: str) -> str:
    """How _loadKernel() names the kind of a parameter."""
    if "*" not in argument:
        return "n"
    return "r" if argument.startswith("const ") else "w"


class _KernelLibrary:
    """A library that was compiled, by its path."""

    key: str

    def __init__(self, path: str) -> None:
        self.path = path


@clear_on_fresh_cache
@_names.overrides(CppCodeCache)
class OpenRegKernelCache(CppCodeCache):
    """Compiles kernels into libraries of their own, which know nothing of Python."""

    cache: dict[str, Callable[[], Any]] = {}
    cache_clear = staticmethod(cache.clear)
    cpp_compile_command_flags = CppPythonBindingsCodeCache.cpp_compile_command_flags

    @staticmethod
    def _load_library_inner(path: str, key: str) -> Any:
        return _KernelLibrary(path)

    @classmethod
    def _get_uncompiled_header(cls, device: str) -> str | None:
        return CppPythonBindingsCodeCache._get_uncompiled_header(device)


def _is_whole(path: str) -> bool:
    """Whether a library has all its parts: the table of them is at its end."""
    with open(path, "rb") as file:
        head = file.read(_ELF.size)
        size = os.fstat(file.fileno()).st_size
    if len(head) < _ELF.size or not head.startswith(b"\x7fELF"):
        return False
    table, entry_size, entries = _ELF.unpack(head)
    return size >= table + entry_size * entries


def _whole_library(library: _KernelLibrary, code: str) -> str:
    """Its path. A process that was killed while its linker wrote leaves part of a file,
    which all others would find in the cache: that one is made again."""
    if not _is_whole(library.path):
        OpenRegKernelCache.cache.pop(library.key, None)
        Path(library.path).unlink(missing_ok=True)
        library = OpenRegKernelCache.load_async(code)()
    return library.path


def openreg_kernel(
    compiler: AsyncCompile,
    name: str,
    threads: int,
    argtypes: list[str],
    source: str,
    key: str = "",
) -> Any:
    """What generated code calls for each kernel: a function of tensors and numbers.

    ``threads``: how many the code was written for. ``key``: by which code in C++ finds
    it.
    """
    source, needed = _count_threads(throw_behind_loops(source), threads)
    arguments = ", ".join(
        f"openreg_argument<{kind}>(words[{place}])"
        for place, kind in enumerate(argtypes)
    )
    entry = _ENTRY.format(arguments=arguments)
    parameters = "".join(map(_letter, argtypes))
    in_parallel = get_compile_threads() > 1
    code = source + entry
    library = OpenRegKernelCache.load_async(
        code, submit_fn=compiler.submit if in_parallel else None
    )

    def load() -> Any:
        path = _whole_library(library(), code)
        return _C._loadKernel(path, name, parameters, needed, key, _cost(source))

    return LambdaFuture(load) if in_parallel else load()
