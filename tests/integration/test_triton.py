"""Triton's kernels, with the device in CUDA's place: refused, but for its interpreter's."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, out, stride, count, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    here = columns < count
    value = tl.load(x + row * stride + columns, here, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * stride + columns, value / tl.sum(value, axis=0), here)


x = torch.randn(5, 100, device="cuda")
out = torch.empty_like(x)
softmax[(5,)](x, out, x.stride(0), 100, BLOCK=128)
torch.testing.assert_close(out, x.softmax(1))
"""


@pytest.fixture
def run(tmp_path):
    def start(program=PROGRAM, **variables):
        (tmp_path / "program.py").write_text(program)
        return subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**os.environ, "OPENREG_AS": "cuda", **variables},
            text=True,
            capture_output=True,
            timeout=200,
        )

    return start


def test_its_interpreter_runs_a_kernel_on_the_devices_memory(run):
    result = run(TRITON_INTERPRET="1")
    assert result.returncode == 0, result.stderr[-4000:]


def test_a_kernel_is_refused_with_the_way_out(run):
    result = run()
    (told,) = [x for x in result.stderr.splitlines() if x.startswith("RuntimeError")]
    assert "a Triton kernel cannot work on this CUDA" in told
    assert "TRITON_INTERPRET=1" in told


# As tutorials of Triton begin, and measure any function.
DRIVER = """
import torch
import triton

driver = triton.runtime.driver.active
assert driver.get_active_torch_device() == torch.device("cuda", 0)
assert driver.get_current_target().backend == "cuda"
figures = driver.utils.get_device_properties(0)
count = torch.cuda.get_device_properties(0).multi_processor_count
assert figures["multiprocessor_count"] == count
x = torch.ones(4, device="cuda")
assert triton.testing.do_bench(lambda: x + 1, warmup=1, rep=1) > 0
driver.utils.load_binary("kernel", b"", 0, 0)
"""


@pytest.mark.parametrize("interpreted", ["0", "1"])
def test_its_driver_is_the_device(interpreted, run):
    result = run(DRIVER, TRITON_INTERPRET=interpreted)
    (told,) = [x for x in result.stderr.splitlines() if x.startswith("RuntimeError")]
    assert "load_binary() of Triton's driver cannot work on this CUDA" in told


OUTER_PRODUCT = """
import torch

x, y = torch.randn(2, 64, 1), torch.randn(2, 1, 16)
assert torch.equal(torch.bmm(x.cuda(), y.cuda()).cpu(), torch.bmm(x, y))
"""


def test_pytorch_does_not_compute_its_own_operators_with_it(run):
    result = run(OUTER_PRODUCT)
    assert result.returncode == 0, result.stderr[-4000:]
