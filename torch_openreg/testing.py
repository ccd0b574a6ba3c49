"""PyTorch's own device-generic tests, on openreg.

In a checkout of PyTorch, of the installed version:

    TORCH_TEST_DEVICES=$(python -m torch_openreg.testing) pytest test/test_view_ops.py

PyTorch runs the file that the variable names, with the names of its module
``common_device_type``, and takes ``TEST_CLASS`` from it: what each generic test class
is made for. See docs/testing_pytorch.md.
"""

import copy
from dataclasses import dataclass
from typing import Any
from unittest import skip

import torch


# docs:begin exclusions
@dataclass(frozen=True)
class Exclusion:
    """Tests of an operator that openreg cannot pass, and why."""

    operator: str  # OpInfo.full_name
    test_class: str
    reason: str


EXCLUSIONS = (
    Exclusion(
        "native_batch_norm",
        "TestFakeTensor",
        "In evaluation the CPU's kernel gives no statistics. FakeTensor knows that of "
        "CPU tensors and expects them of all others.",
    ),
    Exclusion(
        "_native_batch_norm_legit",
        "TestFakeTensor",
        "The same as native_batch_norm.",
    ),
    Exclusion(
        "nonzero_static",
        "TestFakeTensor",
        "FakeTensor expects CUDA's strides of every device that it does not know.",
    ),
)
# docs:end exclusions


def _decorators(op: Any) -> list[Any]:
    """What changes about the tests of an operator on openreg."""
    # Not earlier: it needs the module that runs this file.
    from torch.testing._internal.opinfo.core import DecorateInfo

    # The kernels are the CPU's: what PyTorch knows of those, such as tolerances and
    # expected failures, holds here, too.
    found = []
    for decorator in op.decorators:
        if getattr(decorator, "device_type", None) == "cpu":
            found.append(copy.copy(decorator))
            found[-1].device_type = "openreg"
    found += [
        DecorateInfo(skip(row.reason), row.test_class, device_type="openreg")
        for row in EXCLUSIONS
        if row.operator == op.full_name
    ]
    return found


def make_test_class(base: type) -> type:
    """A base of test classes for openreg, made from PyTorch's for such backends."""

    class OpenRegTestBase(base):  # type: ignore[misc, valid-type]
        device_type = "openreg"  # PyTorch's has another name until it is set up

        @classmethod
        def _apply_op_overrides(cls, ops: Any, test: Any = None) -> None:
            super()._apply_op_overrides(ops, test)
            changed = [copy.copy(op) for op in ops.op_list]
            for op in changed:
                op.decorators = (*op.decorators, *_decorators(op))
            ops.op_list = changed

        def _should_stop_test_suite(self) -> bool:
            # A device-side assert breaks the device for all later tests.
            try:
                torch.openreg.synchronize()
            except torch.AcceleratorError:
                return True
            return False

    return OpenRegTestBase


if __name__ == "<run_path>":
    names = globals()
    # Ours takes the place of what every such backend gets.
    names["device_type_test_bases"].remove(names["PrivateUse1TestBase"])
    TEST_CLASS = make_test_class(names["PrivateUse1TestBase"])
elif __name__ == "__main__":
    print(__file__)
