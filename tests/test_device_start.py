"""Which devices there are, and when they start."""

import threading

import pytest
import torch

from torch_openreg import _C
from torch_openreg.openreg import _lazy

pytestmark = pytest.mark.usefixtures("as_before")


def test_counting_devices_starts_nothing(run_python):
    code = """
import torch
assert torch.openreg.is_available() is True
assert torch.openreg.device_count() == 2
assert torch.openreg._is_in_bad_fork() is False
print(torch.openreg.is_initialized(), torch.openreg._initialized)
"""
    assert run_python(code) == "False False"


FIRST_USES = [
    "m.init()",
    "m._lazy_init()",
    "m.current_device()",
    "m.set_device(1)",
    "m.Stream()",
    "m.current_stream()",
    "m.synchronize()",
    "m.get_device_properties()",
    "m.get_rng_state()",
    "m.mem_get_info()",
    "torch.empty(1, device='openreg')",
]


@pytest.mark.parametrize("use", FIRST_USES)
def test_first_use_starts_the_device(use, fork_python):
    states = [f"({use}, m.is_initialized(), m._initialized)[1:]" for use in FIRST_USES]
    told = dict(zip(FIRST_USES, fork_python(states), strict=True))
    assert told[use] == "(True, True)"


def test_the_device_is_started_once_by_many_threads(monkeypatch):
    starts = []
    monkeypatch.setattr(_lazy, "_initialized", False)
    monkeypatch.setattr(_C, "_init", lambda: starts.append(1))
    together = threading.Barrier(8)

    def start():
        together.wait()
        torch.openreg.init()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert starts == [1]
    assert torch.openreg.is_initialized()


def test_a_start_that_failed_is_tried_again(monkeypatch):
    def fail():
        raise RuntimeError("not now")

    monkeypatch.setattr(_lazy, "_initialized", False)
    with monkeypatch.context() as broken:
        broken.setattr(_C, "_init", fail)
        with pytest.raises(RuntimeError, match="not now"):
            torch.openreg.init()
        assert not torch.openreg.is_initialized()
    torch.openreg.init()
    assert torch.openreg.is_initialized()


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"OPENREG_DEVICE_COUNT": "3"}, 3),
        ({"OPENREG_VISIBLE_DEVICES": "1"}, 1),
        ({"OPENREG_DEVICE_COUNT": "0"}, 0),
        ({"OPENREG_VISIBLE_DEVICES": ""}, 0),
    ],
)
def test_variables_choose_the_devices(variables, count, run_python):
    code = """
import torch
m = torch.openreg
print(m.device_count(), torch.accelerator.device_count(), m.is_available())
"""
    assert run_python(code, **variables) == f"{count} {count} {count > 0}"


def test_without_a_device_the_first_use_says_why(run_python):
    code = "import torch; torch.openreg.init()"
    result = run_python(code, check=False, OPENREG_DEVICE_COUNT="0")
    assert result.returncode == 1
    assert "OPENREG_DEVICE_COUNT is 0" in result.stderr


def test_a_malformed_variable_is_named_with_its_value(run_python):
    code = "import torch; torch.openreg.init()"
    result = run_python(code, check=False, OPENREG_DEVICE_COUNT="many")
    assert result.returncode == 1
    error = result.stderr.splitlines()[-1]
    assert "OPENREG_DEVICE_COUNT" in error
    assert "many" in error


def test_a_malformed_variable_leaves_torch_usable(run_python):
    code = """
import torch, warnings
warnings.simplefilter("ignore")
torch.manual_seed(1)
print(torch.openreg.is_available(), torch.ones(2).sum().item())
"""
    assert run_python(code, OPENREG_DEVICE_COUNT="many") == "False 2.0"
