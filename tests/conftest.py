"""What the tests share: holding a stream, and a Python of one's own.

Nothing here imports torch before a test asks for it: some tests do without.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest


def load_libopenreg():
    """The device's C API, in the library that torch_openreg uses."""
    import torch_openreg

    library = Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"
    return ctypes.CDLL(str(library))


class Gate:
    """Holds a stream until it is opened.

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


@pytest.fixture
def hold():
    """Makes gates: `gate = hold(stream)`; all are open when the test ends."""
    gates = []

    def make(stream):
        gates.append(Gate(stream))
        return gates[-1]

    yield make
    if not gates:
        return
    import torch

    for gate in gates:
        gate.open()
    for device in range(torch.openreg.device_count()):
        torch.openreg.synchronize(device)


@pytest.fixture
def libopenreg():
    return load_libopenreg()


@pytest.fixture
def run_python(tmp_path):
    """Runs code in a Python of its own and returns what it printed."""

    def run(code, check=True, timeout=60, **variables):
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,  # not where a folder of ours could pass for the package
            env={**os.environ, **variables},
            text=True,
            capture_output=True,
            timeout=timeout,
        )
        if check:
            assert result.returncode == 0, result.stderr
            return result.stdout.strip()
        return result

    return run


@pytest.fixture
def as_before():
    """Puts the current device and the current streams back."""
    import torch

    yield
    for index in reversed(range(torch.openreg.device_count())):
        torch.openreg.set_stream(torch.openreg.default_stream(index))
