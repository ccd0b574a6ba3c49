"""Allocators that a program brings."""

import ctypes

from torch_openreg import _C


class _OpenRegAllocator:
    """An allocator by the addresses of its two functions; the device's own has none."""

    def __init__(self, allocator: list[int | None]) -> None:
        self._allocator = allocator

    def allocator(self) -> list[int | None]:
        """The addresses of the two functions."""
        return self._allocator


class OpenRegPluggableAllocator(_OpenRegAllocator):
    """An allocator of device memory in a shared library, for
    :func:`change_current_allocator`.

    Args:
        path_to_so_file: the library
        alloc_fn_name: ``void* f(ssize_t size, int device, orStream_t stream)``, which
            returns memory of :c:func:`orMalloc` or NULL
        free_fn_name: ``void f(void* pointer, ssize_t size, int device,
            orStream_t stream)``; work that is queued may still use the memory
    """

    def __init__(
        self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str
    ) -> None:
        library = ctypes.CDLL(path_to_so_file)
        names = alloc_fn_name, free_fn_name
        functions = [getattr(library, name) for name in names]
        super().__init__([ctypes.cast(f, ctypes.c_void_p).value for f in functions])


_current = _OpenRegAllocator([])


def _get_current_allocator() -> _OpenRegAllocator:
    """The allocator that device memory comes from."""
    return _current


def change_current_allocator(allocator: _OpenRegAllocator) -> None:
    """Let all device memory come from an allocator of the program.

    This is possible only before any memory was allocated. The memory's figures leave it
    out, and nothing is cached; :func:`get_allocator_backend` then returns "pluggable".
    """
    if _C._allocatorInitialized():
        raise RuntimeError("Can't swap an already initialized allocator")
    global _current
    if allocator is not _current:
        _C._plugAllocator(*allocator.allocator())
        _current = allocator
