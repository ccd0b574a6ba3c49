"""Device-generic tests as PyTorch writes them; tests/test_testing.py runs this file.

Not a test file of ours by its name: it is one of PyTorch's kind, and makes its
classes for whatever devices PyTorch is told of.
"""

import unittest

import torch
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    dtypesIfPRIVATEUSE1,
    instantiate_device_type_tests,
    onlyCPU,
    onlyCUDA,
    onlyPRIVATEUSE1,
    ops,
    skipPRIVATEUSE1If,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, device_sleep, run_tests
from torch.testing._internal.opinfo.core import DecorateInfo

SOME_OPS = [
    op for op in op_db if op.full_name in ("add", "clamp", "cumsum", "sort", "where")
]


class TestGeneric(TestCase):
    @dtypes(torch.float32, torch.int64)
    @dtypesIfPRIVATEUSE1(torch.float32, torch.bfloat16, torch.bool)
    def test_views_share_memory(self, device, dtype):
        x = make_tensor(4, 5, device=device, dtype=dtype)
        view = x.t()[1:]
        view.fill_(0)
        self.assertEqual(x[:, 1:], torch.zeros(4, 4, dtype=dtype, device=device))

    @ops(SOME_OPS, allowed_dtypes=(torch.float32, torch.int64))
    def test_equals_the_cpu(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            host = sample.transform(lambda t: t.cpu() if torch.is_tensor(t) else t)
            expected = op(host.input, *host.args, **host.kwargs)
            got = op(sample.input, *sample.args, **sample.kwargs)
            self.assertEqual(got, expected, exact_device=False)

    @onlyPRIVATEUSE1
    def test_is_on_the_device(self, device):
        self.assertEqual(torch.device(device).type, "openreg")
        device_sleep(device, 1)

    @deviceCountAtLeast(2)
    @onlyPRIVATEUSE1
    def test_devices(self, devices):
        self.assertEqual(devices, ["openreg:0", "openreg:1"])

    @onlyCPU
    def test_for_the_cpu(self, device):
        self.assertEqual(device, "cpu")

    @onlyCUDA
    def test_for_cuda(self, device):
        self.fail("there is none")

    @skipPRIVATEUSE1If(True, "as a test of PyTorch may be")
    def test_not_for_backends(self, device):
        self.assertEqual(torch.device(device).type, "cpu")


class TestFakeTensor(TestCase):
    """Has the name of a class that some operators are excluded from."""

    @ops(
        [op for op in op_db if op.full_name in ("native_batch_norm", "abs")],
        allowed_dtypes=(torch.float32,),
    )
    def test_fake(self, device, dtype, op):
        pass


def _expected_to_fail_on_the_cpu(op):
    op.decorators = (
        *op.decorators,
        DecorateInfo(unittest.expectedFailure, "TestKnownOfTheCpu", device_type="cpu"),
    )
    return op


class TestKnownOfTheCpu(TestCase):
    @ops(
        [_expected_to_fail_on_the_cpu(op) for op in op_db if op.full_name == "sin"],
        allowed_dtypes=(torch.float32,),
    )
    def test_fails(self, device, dtype, op):
        self.fail("as the CPU's kernel does")


class TestBroken(TestCase):
    """To be run by itself: it breaks the device, so that no later test can pass."""

    @onlyPRIVATEUSE1
    def test_first(self, device):
        torch.ones(2, device=device)[torch.tensor([7], device=device)].cpu()

    @onlyPRIVATEUSE1
    def test_later(self, device):
        torch.ones(2, device=device)


for _class in (
    TestGeneric,
    TestFakeTensor,
    TestKnownOfTheCpu,
    TestBroken,
):
    instantiate_device_type_tests(_class, globals())
del _class

if __name__ == "__main__":
    run_tests()
