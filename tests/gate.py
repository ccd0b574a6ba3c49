"""Work that keeps a stream busy, through the C API of the device."""

import ctypes
from pathlib import Path


def load_libopenreg():
    """The device's C API, in the library that torch_openreg uses."""
    import torch_openreg

    library = Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"
    return ctypes.CDLL(str(library))


class Gate:
    """Holds a stream until it is opened. Keep it until the stream is done with it.

    The stream's worker waits in libc and needs nothing of Python, so a call that
    waits for it while keeping Python's lock shows as a hang, not as a success.
    """

    def __init__(self, stream):
        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)  # a sem_t and more
        assert self._libc.sem_init(self._semaphore, 0, 0) == 0
        status = load_libopenreg().orLaunchHostFunc(
            ctypes.c_void_p(stream.native_handle),
            ctypes.cast(self._libc.sem_wait, ctypes.c_void_p),
            self._semaphore,
        )
        assert status == 0

    def open(self):
        self._libc.sem_post(self._semaphore)
