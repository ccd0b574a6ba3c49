"""A device that poses as a GPU keeps what the GPU's matrix libraries keep."""

import pytest

START = """
import os, threading, torch
x = torch.ones(4, 4, device="openreg")
bias = torch.ones(4, device="openreg")
start = torch.openreg.memory_allocated()

def kept():
    return (torch.openreg.memory_allocated() - start) >> 10

def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        pass  # what it had is given back at its very end
"""
MiB = 1 << 10  # in KiB


@pytest.fixture
def kept(run_python):
    """KiB kept after a piece of code on a profile."""

    def run(code, profile="h200", **variables):
        code = START + code + "\nprint(kept())"
        return int(run_python(code, OPENREG_DEVICE_PROFILE=profile, **variables))

    return run


@pytest.mark.parametrize(
    "product",
    [
        "torch.mm(x, x)",
        "x @ bias",
        "torch.bmm(x[None], x[None])",
        "torch.baddbmm(x[None], x[None], x[None])",
        "torch.addmm(x, x, x)",
        "x.addmm_(x, x)",
        "torch.mm(x, x, out=torch.empty_like(x))",
    ],
)
def test_a_product_keeps_a_workspace(kept, product):
    assert kept(product) == 32 * MiB


@pytest.mark.parametrize(
    "code", ["torch.nn.functional.linear(x, x, bias)", "torch.addmm(bias, x, x)"]
)
def test_a_bias_keeps_another(kept, code):
    assert kept(code) == 33 * MiB


def test_it_is_kept_once_for_a_stream(kept):
    code = "for _ in range(3): torch.addmm(bias, x, x)"
    assert kept(code) == 33 * MiB
    code = """
with torch.openreg.stream(torch.openreg.Stream()):
    for _ in range(3): x @ x
x @ x
"""
    assert kept(code) == 64 * MiB


def test_it_is_kept_once_for_a_thread(kept):
    assert kept("x @ x; in_thread(lambda: x @ x)") == 64 * MiB
    # A thread takes over what the one before has left.
    assert kept("in_thread(lambda: x @ x); in_thread(lambda: x @ x)") == 32 * MiB


def test_a_backward_pass_has_its_own(kept):
    code = """
w = x.clone().requires_grad_()
(x @ w).sum().backward()
del w
"""
    assert kept(code) == 64 * MiB


def test_emptying_the_cache_does_not_free_it(kept):
    assert kept("x @ x; torch.openreg.empty_cache()") == 32 * MiB


def test_its_size_is_that_of_the_gpu(kept):
    assert kept("x @ x", profile="a100") == 8 * MiB + 128
    assert kept("x @ x", profile="mi300x") == 0
    assert kept("torch.addmm(bias, x, x)", profile="") == 0


def test_its_size_is_that_of_the_variables(kept):
    assert kept("x @ x", CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8") == 8 * MiB + 128
    none = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}
    assert kept("torch.addmm(bias, x, x)", **none) == 0


def test_a_wrong_variable_is_reported(run_python):
    result = run_python(
        START + "x @ x; print(kept())",
        check=False,
        OPENREG_DEVICE_PROFILE="h200",
        CUBLAS_WORKSPACE_CONFIG="4096",
    )
    assert "Could not parse CUBLAS_WORKSPACE_CONFIG='4096'" in result.stderr
    assert int(result.stdout) == 32 * MiB


def test_too_little_memory_for_it_is_an_error(run_python):
    result = run_python(
        START + "x @ x",
        check=False,
        OPENREG_DEVICE_PROFILE="h200",
        OPENREG_DEVICE_MEMORY="16MiB",
    )
    assert "torch.OutOfMemoryError" in result.stderr
    assert "Tried to allocate 32.00 MiB" in result.stderr
