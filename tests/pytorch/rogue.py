"""Tests in PyTorch's style of which one crashes the process and one fails on the CPU,
too; tests/test_conformance_pytorch.py runs this file."""

import os

from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    onlyPRIVATEUSE1,
)
from torch.testing._internal.common_utils import TestCase, run_tests


class TestRogue(TestCase):
    @onlyPRIVATEUSE1
    def test_b_crashes(self, device):
        os.abort()

    def test_a_passes(self, device):
        pass

    def test_c_passes(self, device):
        pass

    def test_d_fails_everywhere(self, device):
        self.fail("on the CPU, too")


instantiate_device_type_tests(TestRogue, globals())

if __name__ == "__main__":
    run_tests()
