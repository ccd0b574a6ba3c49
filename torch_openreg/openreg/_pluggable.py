"""Allocators that a program brings."""

import ctypes

from torch_openreg import _C


class OpenRegPluggableAllocator:
    """An allocator of device memory in a shared library, for
    :func:`change_current_allocator`.

    Args:
        path_to_so_file: the library
        alloc_fn_name: ``void* f(ssize_t size, int device, orStream_t stream)``, which
            gives memory of :c:func:`orMalloc` or NULL
        free_fn_name: ``void f(void* pointer, ssize_t size, int device,
            orStream_t stream)``; work that is queued may still use the memory
    """

    def __init__(
        self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str
    ) -> None:
        library = ctypes.CDLL(path_to_so_file)
        names = alloc_fn_name, free_fn_name
        functions = [getattr(library, name) for name in names]
        self._allocator = [ctypes.cast(f, ctypes.c_void_p).value for f in functions]

    def allocator(self) -> list[int | None]:
        """The addresses of the two functions."""
        return self._allocator


def change_current_allocator(allocator: OpenRegPluggableAllocator) -> None:
    """Let all device memory come from an allocator of the program.

    Only before any was allocated. The memory's figures leave it out, and nothing is
    cached; :func:`get_allocator_backend` then tells "pluggable".
    """
    if _C._allocatorInitialized():
        raise RuntimeError("Can't swap an already initialized allocator")
    _C._plugAllocator(*allocator.allocator())
