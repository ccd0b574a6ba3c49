"""A device process that is killed, stopped or crashes loses its device and no more."""

import os
import select
import signal
import subprocess
import sys

import pytest

HELP = """
import os, signal, sys, time, torch
from torch_openreg.device import device_processes

def pid(device=0):
    return next(
        p.pid for p in device_processes()
        if p.driver == os.getpid() and p.device == device
    )

def loss(call):
    \"\"\"Calls until the device is lost; returns the error.\"\"\"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            call()
        except torch.AcceleratorError as error:
            assert error.error_code == 46, error
            return str(error)
    raise AssertionError("the device was not lost")

x = torch.full((1 << 20,), -1.0, device="openreg")
y = torch.ones(8, device="openreg:1").neg_()
use = x.abs_
use()
torch.openreg.synchronize()
"""


@pytest.fixture
def run_lossy(run_python):
    def run(code, **options):
        return run_python(
            HELP + code,
            timeout=120,
            OPENREG_EXECUTOR="process",
            OMP_NUM_THREADS="1",
            **options,
        )

    return run


def test_a_death_at_any_stage_raises_at_the_next_use(run_lossy):
    """tests/kills.py does it at random moments."""
    code = """
def queue():
    for _ in range(100):
        use()

def queue_elsewhere():
    with torch.openreg.stream(torch.openreg.Stream()):
        queue()

def copy():
    x[:2].cpu()

wait = torch.openreg.synchronize
for before, next_use, ending in (
    (wait, wait, signal.SIGKILL),
    (wait, copy, signal.SIGSEGV),
    (wait, use, signal.SIGKILL),
    (queue, wait, signal.SIGSEGV),
    (queue_elsewhere, wait, signal.SIGKILL),
):
    before()
    os.kill(pid(), ending)
    error = loss(next_use)
    assert f"killed by signal {ending.value}" in error, error
    assert "reset_device(0)" in error, error
    loss(wait)  # and again
    assert y.abs().sum().item() == 8, "the other device lives on"

    torch.openreg.reset_device()
    assert "older than the last reset of device 0" in loss(x[:2].tolist)
    x.fill_(-3)
    use()
    assert x.sum().item() == 3 * x.numel()
"""
    run_lossy(code)


def test_training_raises_within_a_second_of_a_death(run_lossy):
    code = """
def seconds_until_heard():
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).to("openreg")
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    data = torch.ones(64, 64, device="openreg")

    def train():
        optimizer.zero_grad()
        network(data).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        train()
    os.kill(pid(), signal.SIGKILL)
    start = time.monotonic()
    loss(train)
    took = time.monotonic() - start
    torch.openreg.reset_device()
    return took

# More than one death only if the machine is busy with something else.
assert any(seconds_until_heard() < 1 for _ in range(5))
"""
    run_lossy(code)


def test_a_process_that_is_stopped_is_lost_too(run_lossy):
    code = """
os.kill(pid(), signal.SIGSTOP)

def use_and_wait():  # a thread there may end what it does before it stops
    use()
    torch.openreg.synchronize()

error = loss(use_and_wait)
assert "stopped by signal" in error, error
torch.openreg.reset_device()
x.fill_(-1)
use()
torch.openreg.synchronize()
"""
    run_lossy(code)


def test_a_reset_through_the_c_api_starts_a_new_process_too(run_lossy):
    code = """
import ctypes, pathlib, torch_openreg
folder = pathlib.Path(torch_openreg.__file__).parent
libopenreg = ctypes.CDLL(folder / "lib" / "libopenreg.so")
for lost in (True, False):
    before = pid()
    if lost:
        os.kill(before, signal.SIGKILL)
        loss(torch.openreg.synchronize)
    assert libopenreg.orDeviceReset() == 0
    assert "older than the last reset of device 0" in loss(x[:2].tolist)
    x.fill_(-2)
    use()
    assert x.sum().item() == 2 * x.numel()
    assert pid() != before
"""
    run_lossy(code)


def test_a_process_that_does_not_start_is_an_error_and_the_next_try_may_work(
    run_python,
):
    code = """
import os, torch
x = torch.ones(4, device="openreg")
os.environ["OPENREG_DEVICE_LIBRARIES"] = "/no/such/library.so"
try:
    x.abs_(); torch.openreg.synchronize()
except RuntimeError as error:
    print("did not get ready" in str(error))
del os.environ["OPENREG_DEVICE_LIBRARIES"]
torch.openreg.reset_device()
print((x.fill_(2) + 1).sum().item())
"""
    variables = {"OPENREG_EXECUTOR": "process", "OPENREG_SCHEDULE": "async"}
    assert run_python(code, **variables) == "True\n12.0"


# --- its end ----------------------------------------------------------------------


def is_gone(handle):
    readable, _, _ = select.select([handle], [], [], 30)
    return bool(readable)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("ending", ["exit", "kill"])
def test_a_device_process_ends_with_its_driver(tmp_path, ending, stopped):
    code = HELP + "print(pid(), flush=True)\nsys.stdin.read()"
    driver = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "OPENREG_EXECUTOR": "process"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(driver.stdout.readline())
    handle = os.pidfd_open(pid)
    try:
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        if ending == "kill":
            driver.kill()
        driver.communicate()
        assert is_gone(handle)
    finally:
        os.close(handle)


def test_ctrl_c_is_for_the_driver_alone(run_lossy):
    code = """
signal.signal(signal.SIGINT, lambda *_: print("interrupted"))
os.killpg(os.getpgid(0), signal.SIGINT)
use()
torch.openreg.synchronize()
print(x.sum().item() / x.numel())
"""
    code = "os.setpgid(0, 0)\n" + code  # or the tests would be interrupted too
    assert run_lossy(code) == "interrupted\n1.0"
