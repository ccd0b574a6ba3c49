"""The device under test, as checks see it: a name, and what the vendor declared."""

import functools
import math
import os
import subprocess
import sys
import time

import torch

from .expect import Failed, expect

# The parts of a dtype; bool and the integers every device has.
DTYPE_PARTS = {
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.complex64: "complex",
}


class Device:
    """Makes tensors on the device and compares them with the CPU's."""

    def __init__(self, settings):
        self.settings = settings
        self.name = settings.device

    # --- what there is --------------------------------------------------------

    @functools.cached_property
    def module(self):
        """`torch.mychip`."""
        return torch.get_device_module(self.name)

    @functools.cached_property
    def count(self):
        """The number of devices."""
        return self.module.device_count()

    def at(self, index=0):
        """The device with an index."""
        return torch.device(self.name, index)

    def has(self, part):
        """Whether the vendor has not declared the part absent."""
        if part == "devices" and part not in self.settings.absent:
            return self.count > 1
        if part == "autoload" and self.settings.module:
            return False
        return part not in self.settings.absent

    def missing(self, needs):
        """The first of the parts that is absent; None if all are there."""
        return next((part for part in needs if not self.has(part)), None)

    @functools.cached_property
    def dtypes(self):
        """Those of a small set that the device has."""
        fixed = [torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool]
        return fixed + [d for d, part in DTYPE_PARTS.items() if self.has(part)]

    # --- tensors --------------------------------------------------------------

    def pair(self, *shape, dtype=torch.float32, seed=0, index=0):
        """The same numbers on the CPU and on the device."""
        generator = torch.Generator().manual_seed(seed)
        if dtype.is_complex:
            host = torch.randn(shape, dtype=dtype, generator=generator)
        elif dtype.is_floating_point:
            host = torch.randn(shape, generator=generator).to(dtype)
        else:
            host = torch.randint(0, 2, shape, generator=generator).to(dtype)
        return host, host.to(self.at(index))

    def expect_on_device(self, tensor, what="the result", index=None):
        """Fails unless the tensor is on the device."""
        expect(
            tensor.device.type == self.name and index in (None, tensor.device.index),
            f"{what} is on {tensor.device}, not on {self.at(index or 0)}",
        )

    def expect_close(self, found, expected, what="the result", scale=1.0):
        """Fails unless a tensor of the device has the CPU's shape, dtype and numbers.

        `scale` widens the tolerance for what adds up rounding, as a training does.
        """
        self.expect_on_device(found, what)
        for name in ("shape", "dtype"):
            left, right = getattr(found, name), getattr(expected, name)
            expect(left == right, f"{name} of {what} is {left}, on the CPU {right}")
        rtol, atol = self.settings.tolerance_of(str(found.dtype).split(".")[1])
        try:
            torch.testing.assert_close(
                found.detach().cpu(),
                expected.detach(),
                rtol=rtol * scale,
                atol=atol * scale,
                equal_nan=True,
            )
        except AssertionError as error:
            raise Failed(f"{what} differs from the CPU's: {error}") from None

    # --- time -----------------------------------------------------------------

    @functools.cached_property
    def _block(self):
        """A matrix and the time of one product with it: what keeps a stream busy."""
        size = 512
        while True:
            matrix = torch.full((size, size), 1 / size, device=self.at())
            matrix @ matrix
            torch.accelerator.synchronize()
            start = time.perf_counter()
            matrix @ matrix
            torch.accelerator.synchronize()
            took = time.perf_counter() - start
            if took > 0.002 or size >= 4096:
                return matrix, took
            size *= 2

    def keep_busy(self, seconds=0.15):
        """Queues work of about that length in the current stream of device 0."""
        matrix, took = self._block
        for _ in range(min(2000, math.ceil(seconds / took))):
            matrix @ matrix

    @functools.cached_property
    def is_asynchronous(self):
        """Whether calls return long before their work is done."""
        self.keep_busy(0)
        return any(self._returns_early() for _ in range(3))

    def _returns_early(self):
        torch.accelerator.synchronize()
        start = time.perf_counter()
        self.keep_busy()
        launched = time.perf_counter()
        torch.accelerator.synchronize()
        return time.perf_counter() - launched > launched - start

    # --- processes ------------------------------------------------------------

    @property
    def imports(self):
        """The lines that load the backend in a program."""
        return "import torch\n" + (
            f"import {self.settings.module}\n" if self.settings.module else ""
        )

    def run_python(self, code, seconds=100, **variables):
        """Runs a program with the backend in a Python of its own."""
        try:
            return subprocess.run(
                [sys.executable, "-c", self.imports + code],
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"a program of its own hangs: {code.strip()}") from None

    def expect_python(self, code, **options):
        """Runs such a program, which has to end well; returns what it printed."""
        result = self.run_python(code, **options)
        expect(
            result.returncode == 0,
            f"a program ends with status {result.returncode}: {code.strip()}\n"
            f"{result.stderr.strip()[-1500:]}",
        )
        return result.stdout.strip()
