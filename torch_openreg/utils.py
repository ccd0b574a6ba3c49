"""Where other builds find the headers, the libraries and the CMake package."""

import os

__all__ = ["cmake_prefix_path", "include_paths", "library_paths"]

_HERE = os.path.dirname(os.path.abspath(__file__))

#: For CMAKE_PREFIX_PATH, beside `torch.utils.cmake_prefix_path`; then
#: `find_package(torch_openreg)` gives the target `torch_openreg::torch_openreg`.
cmake_prefix_path: str = os.path.join(_HERE, "share", "cmake")


def include_paths() -> list[str]:
    """Folders for `#include <openreg.h>` and `<torch_openreg/runtime/...>`; the
    headers include each other by the second one."""
    include = os.path.join(_HERE, "include")
    return [include, os.path.join(include, "torch_openreg")]


def library_paths() -> list[str]:
    """Folders of libtorch_openreg and libopenreg."""
    return [os.path.join(_HERE, "lib")]
