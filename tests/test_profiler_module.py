"""torch.openreg.profiler: parts of a program to be traced, and operators as ranges."""

import json

import pytest
import torch
from torch.profiler import profile
from traces import BOTH, HOST, exported, names, of

from torch_openreg.openreg import profiler


@pytest.fixture
def output(tmp_path):
    """Where traces go, for one test."""
    path = tmp_path / "part.json"
    profiler.init(str(path))
    yield path
    profiler._output = None


def kernels(path):
    return names(of(json.loads(path.read_text())["traceEvents"], "kernel"))


def test_a_part_of_a_program_is_traced_to_a_file(output):
    x = torch.ones(8, device="openreg")
    x.add_(1)
    profiler.start()
    x.mul_(2)
    profiler.stop()
    x.add_(1)
    assert kernels(output) == ["aten::mul_.Tensor"]


def test_each_part_has_a_file(output):
    x = torch.ones(8, device="openreg")
    for _ in range(2):
        with profiler.profile():
            x.add_(1)
    assert kernels(output) == kernels(output.with_name("part.2.json"))


def test_a_block_that_fails_is_traced(output):
    x = torch.ones(8, device="openreg")
    with pytest.raises(KeyError), profiler.profile():
        x.add_(1)
        raise KeyError
    assert kernels(output) == ["aten::add_.Tensor"]


def test_a_traced_part_inside_another_is_refused(output):
    with profiler.profile():
        with pytest.raises(RuntimeError, match="start.. was called twice"):
            profiler.start()


def test_without_a_file_nothing_is_traced():
    profiler.start()
    with profile(activities=[HOST]):
        pass  # would be refused beside another
    profiler.stop()


# --- ranges -----------------------------------------------------------------------


def test_operators_are_ranges(tmp_path):
    x = torch.ones(2, 3, device="openreg", requires_grad=True)
    with profile(activities=BOTH) as recorded:
        with profiler.emit_ranges(record_shapes=True):
            x.exp().sum().backward()
        x.detach().cos()
    events = exported(recorded, tmp_path)
    told = names(of(events, "user_annotation"))
    exp = next(name for name in told if name.startswith("aten::exp"))
    assert exp.startswith("aten::exp, seq = ")
    assert exp.endswith(", sizes = [[2, 3]]")
    assert any("SumBackward0, seq = " in name for name in told)
    assert not any("cos" in name for name in told)
    assert exp in names(of(events, "gpu_user_annotation"))


def test_ranges_may_begin_before_the_profiler_does(tmp_path):
    x = torch.ones(2, device="openreg")
    with profiler.emit_ranges():
        with profile(activities=BOTH) as recorded:
            x.exp()
    told = names(of(exported(recorded, tmp_path), "user_annotation"))
    assert told == ["aten::exp"] or told[0].startswith("aten::exp, seq = ")


def test_ranges_can_be_switched_off_and_are_not_reentrant(tmp_path):
    x = torch.ones(2, device="openreg")
    with profile(activities=BOTH) as recorded:
        with profiler.emit_ranges(enabled=False):
            x.exp()
    assert of(exported(recorded, tmp_path), "user_annotation") == []
    ranges = profiler.emit_ranges()
    with ranges, pytest.raises(RuntimeError, match="not reentrant"):
        ranges.__enter__()
    with ranges:
        pass
