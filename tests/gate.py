"""Work that keeps a stream busy, through the C API of the device."""

import ctypes
from pathlib import Path


def load_libopenreg():
    """The device's C API, in the library that torch_openreg uses."""
    import torch_openreg

    library = Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"
    return ctypes.CDLL(str(library))


class SignalEvent(ctypes.Structure):
    """struct sigevent of Linux."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_char * 32),
    )


class TimerSetting(ctypes.Structure):
    """struct itimerspec: when it fires again, and when first."""

    _fields_ = tuple(
        (name, ctypes.c_long)
        for name in ("again", "again_nanoseconds", "first", "first_nanoseconds")
    )


CLOCK_MONOTONIC = 1
SIGEV_THREAD = 2


class Gate:
    """Holds a stream until it is opened. Keep it until the stream is done with it.

    The stream's worker waits in libc and never needs Python. A call that waits for the
    gate by mistake, perhaps with Python's lock, would never return; so a timer of libc
    opens the gate after `seconds`, and then `is_late` is true.
    """

    def __init__(self, stream, seconds=60):
        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)  # a sem_t and more
        self._check(self._libc.sem_init(self._semaphore, 0, 0))
        status = load_libopenreg().orLaunchHostFunc(
            ctypes.c_void_p(stream.native_handle),
            ctypes.cast(self._libc.sem_wait, ctypes.c_void_p),
            self._semaphore,
        )
        assert status == 0
        self._start_timer(seconds)
        self._was_late = None  # until it is opened

    def _start_timer(self, seconds):
        event = SignalEvent(
            value=ctypes.addressof(self._semaphore),
            notify=SIGEV_THREAD,
            function=ctypes.cast(self._libc.sem_post, ctypes.c_void_p),
        )
        self._timer = ctypes.c_void_p()
        self._check(
            self._libc.timer_create(
                CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)
            )
        )
        setting = TimerSetting(
            first=int(seconds), first_nanoseconds=int(seconds % 1 * 1e9)
        )
        self._check(
            self._libc.timer_settime(self._timer, 0, ctypes.byref(setting), None)
        )

    def _check(self, status):
        assert status == 0

    @property
    def is_late(self):
        """Whether it was opened by its timer."""
        if self._was_late is not None:
            return self._was_late
        left = TimerSetting()
        self._check(self._libc.timer_gettime(self._timer, ctypes.byref(left)))
        return left.first == left.first_nanoseconds == 0

    def open(self):
        if self._was_late is None:
            self._was_late = self.is_late
            self._check(self._libc.timer_delete(self._timer))
            self._libc.sem_post(self._semaphore)


def end(gates):
    """Opens all gates, waits for the streams, and fails if a gate was late."""
    from device_name import m

    for gate in gates:
        gate.open()
    for device in range(m.device_count()):
        m.synchronize(device)
    assert not any(gate.is_late for gate in gates), "a call waited for a held stream"
