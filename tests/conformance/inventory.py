"""What is not as on the CPU, and why. Anything else that differs is a bug.

A test fails for a difference that is not listed here; with all samples it also fails
for a row that explains nothing any more.
"""

import os
import re
from dataclasses import dataclass

from device_name import NAME

# Results without defined values: everything else about them is compared.
NO_VALUES = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}

# Values are compared to rounding; everything else about them exactly.
CLOSE = {
    # The CPU does not give itself the same bits twice: called again, or with copies
    # that lie some elements further in memory, 17 of 144 samples came out different.
    "linalg.lstsq",
}


@dataclass(frozen=True)
class Row:
    """`difference` is looked for in the text of each difference it shall explain."""

    operators: str  # a pattern for the whole name, with its variant
    difference: str
    reason: str
    dtypes: tuple[str, ...] | None = None  # all
    direction: str | None = None  # "forward", "backward" or "errors"; all
    suite: str | None = None  # all
    schedule: str | None = None  # of OPENREG_SCHEDULE; every
    name: str | None = None  # of the device: "openreg" or "cuda"; either

    def covers(self, suite, name, dtype, direction):
        return (
            re.fullmatch(self.operators, name)
            and self.suite in (None, suite)
            and (self.dtypes is None or dtype in self.dtypes)
            and self.direction in (None, direction)
            and self.schedule in (None, SCHEDULE)
            and self.name in (None, NAME)
        )


SCHEDULE = os.environ.get("OPENREG_SCHEDULE", "auto")

ROWS = [
    Row(
        r"(_refs\.)?tensor_split",
        "expected tensor_indices_or_sections to be on cpu|tensor it must be on the CPU"
        "|tensor_indices_or_sections must be on CPU",
        "An accelerator's tensor does not say how to split: CUDA refuses it as well.",
    ),
    Row(
        r"nn\.functional\.linear_cross_entropy\.chunked(_none)?",
        "values differ",
        "PyTorch accumulates it in float32 on the CPU, but in bfloat16 on a device "
        "that its table (LinearCrossEntropyOptions) does not know.",
        dtypes=("bfloat16",),
    ),
    Row(
        r"_refs\.native_group_norm",
        "values differ",
        "PyTorch's Python has another formula for CPU tensors.",
        suite="references",
    ),
    Row(
        r"addr",
        "no error instead of RuntimeError: 2D tensor expected",
        "ATen refuses it if self and out are one C++ object. The executor passes two "
        "for one tensor, which is then resized, with a warning.",
        suite="in place",
    ),
    Row(
        r"nn\.functional\.max_pool1d",
        "result: True instead of False",
        "On a device it is max_pool2d of a view, so its result is a view; on the CPU "
        "there is a kernel of its own, for calls without gradients.",
        suite="views",
    ),
    Row(
        r"(_native_batch_norm_legit|native_batch_norm)",
        r"torch.Size\(\[0\]\).* instead of .*torch.Size\(\[2\]\)",
        "In evaluation the CPU's kernel gives no statistics. FakeTensor knows that of "
        "CPU tensors and expects them of all others.",
        suite="fake",
    ),
    Row(
        r"nonzero_static",
        r"\[\(torch.int64, ",
        "FakeTensor expects CUDA's strides of every device that it does not know.",
        suite="fake",
    ),
    Row(
        r"nn\.functional\.group_norm|native_group_norm",
        "values differ",
        "PyTorch's Python has another formula for CPU tensors.",
        suite="compiled",
    ),
    Row(
        r"(unsqueeze_copy|_test_autograd_multiple_dispatch_view_copy)\.out"
        r"|linalg_pinv\.out_rcond_tensor",
        "Can only resize quantized tensors with per-tensor schemes",
        "PyTorch resizes outputs of its own devices without resize_, which refuses it "
        "on the CPU as well.",
        suite="out=, per channel",
    ),
    Row(
        r"(max|min)\.reduction_no_dim|_foreach_max",
        "values differ in the sign of zero",
        "For CUDA PyTorch multiplies the gradient by a mask, so that the host need not "
        "wait: a negative one times zero is -0.",
        direction="backward",
        name="cuda",
    ),
    Row(
        r"renorm",
        "values differ",
        "PyTorch accumulates its gradient in float32 for CUDA, in float64 for the CPU.",
        dtypes=("float32", "complex64"),
        direction="backward",
        name="cuda",
    ),
    Row(
        r"nn\.functional\.conv(_transpose)?[123]d",
        "values differ",
        "Inductor sums a bias's gradient itself for CUDA, in an order of its own.",
        direction="backward",
        suite="compiled",
        name="cuda",
    ),
    Row(
        r"(svd|pca)_lowrank|fft\.rfftn|linalg\.eig",
        " instead of ",
        "FakeTensor expects the strides that cuSOLVER and cuFFT give; results have "
        "those of the CPU.",
        suite="fake",
        name="cuda",
    ),
]


class NotInTheInventoryError(AssertionError):
    pass


def judge(suite, name, dtype, verdict, strict=False):
    """Tells for each direction of a verdict whether it passed or failed as expected;
    raises if there is a difference that no row explains. A row that explains none is
    as bad if all samples were looked at (`strict`), or if it is for this suite only.
    """
    used, ends = set(), {}
    for direction, differences in verdict.items():
        rows = [row for row in ROWS if row.covers(suite, name, dtype, direction)]
        for difference in differences:
            row = next((r for r in rows if re.search(r.difference, difference)), None)
            if row is None:
                raise NotInTheInventoryError(f"{direction}, {difference}")
            used.add(row)
        ends[direction] = "expected" if differences else "passed"
    for row in ROWS:
        concerned = any(row.covers(suite, name, dtype, way) for way in verdict)
        if concerned and row not in used and (strict or row.suite):
            raise NotInTheInventoryError(f"passes, but is listed: {row}")
    return ends
