"""Fault plans: what fails, when, and what it leaves behind."""

import contextlib
import itertools
import re
from pathlib import Path

import pytest
import torch

from torch_openreg.memory import failing_allocation

faults = torch.openreg.faults


@pytest.fixture(autouse=True)
def mended():
    yield
    torch.openreg.reset_device(0)


def matrix(n=8):
    return torch.arange(n * n, dtype=torch.float32).reshape(n, n).to("openreg")


# --- plans --------------------------------------------------------------------


def test_a_malformed_plan_is_refused_and_names_the_part():
    with (
        pytest.raises(ValueError, match=r"'allok'.*alloc, launch, op:NAME"),
        faults.plan("oom@allok:1"),
    ):
        pass
    torch.empty(1, device="openreg")  # no plan is in force


def sites_told(text):
    """Kind -> the sites that a table of kinds names for it."""
    told, kind = {}, None
    for line in text.splitlines():
        row = re.match(rf"[| ]*`+({'|'.join(faults.KINDS)})(:R)?`+ ", line)
        if row:
            kind = row[1]
        elif not line.startswith(" " * 20):  # of the row above
            kind = None
        if kind:
            found = re.findall(
                r"`(alloc|launch|op:NAME|copy|capture|collective)`", line
            )
            told.setdefault(kind, set()).update(found)
    return told


@pytest.mark.parametrize("where", ["the docstring", "the page"])
def test_the_table_of_sites_is_true(where):
    page = Path(__file__).parent.parent / "docs" / "faults.md"
    text = faults.plan.__doc__ if where == "the docstring" else page.read_text()
    taken = {kind: set() for kind in faults.KINDS}
    for kind, site in itertools.product(faults.KINDS, ["op:NAME", *faults.SITES]):
        rank = ":1" if kind == "drop-rank" else ""
        delay = ":1ms" if kind == "slow" else ""
        with (
            contextlib.suppress(ValueError),
            faults.plan(f"{kind}{rank}@{site}:1000{delay}"),
        ):
            taken[kind].add(site)
    assert sites_told(text) == taken


def test_plans_do_not_nest():
    with (
        faults.plan(),
        pytest.raises(RuntimeError, match="only one is allowed at a time"),
        failing_allocation(1),
    ):
        pass
    with failing_allocation(1) as failure:
        pass
    assert not failure.happened


def test_a_plan_counts_the_places():
    x = matrix()
    with faults.plan() as plan:
        y = x @ x
        y.cpu()
        assert plan.asked["launch"] >= 1
    assert plan.asked["alloc"] >= 1
    assert plan.asked["copy"] == 1
    assert plan.fired == {}
    asked = dict(plan.asked)
    x @ x
    assert plan.asked == asked


def test_an_allocation_runs_out_of_memory():
    with faults.plan("oom@alloc:2") as plan:
        kept = torch.empty(4, device="openreg")
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
            torch.empty(4, device="openreg")
        torch.empty(4, device="openreg")
    assert plan.fired == {"oom": 1}
    del kept


def test_caching_or_not_the_allocation_fails():
    torch.openreg.caching_allocator_enable(False)
    try:
        with faults.plan("oom@alloc:1") as plan:
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(4, device="openreg")
            torch.empty(4, device="openreg")
        assert plan.asked["alloc"] == 2
    finally:
        torch.openreg.caching_allocator_enable(True)


def test_a_segment_is_not_an_allocation_of_its_own():
    torch.openreg.empty_cache()
    with faults.plan() as plan:
        torch.empty(30 << 20, dtype=torch.uint8, device="openreg")
    assert plan.asked == {"alloc": 1}


@pytest.mark.parametrize("kind", ["error", "kernel-error"])
def test_the_numbered_call_of_an_operator_fails(kind):
    x = matrix()
    with faults.plan(f"{kind}@op:aten::mm:2") as plan:
        expected = (x @ x).cpu()
        (x + x).cpu()
        with pytest.raises(torch.AcceleratorError, match=r"aten::mm.*@op:aten::mm:2"):
            (x @ x).cpu()
    assert plan.fired == {"error": 1}
    torch.openreg.reset_device(0)
    x = matrix()
    assert torch.equal((x @ x).cpu(), expected)


def test_a_name_stands_for_its_overloads():
    x = matrix()
    with (
        faults.plan("error@op:aten::add:1"),
        pytest.raises(torch.AcceleratorError, match=r"aten::add\.Tensor"),
    ):
        (x + x).cpu()


def test_an_operator_that_the_host_waits_for_fails():
    x = matrix()
    with (
        faults.plan("error@op:aten::nonzero:1"),
        pytest.raises(torch.AcceleratorError, match="aten::nonzero"),
    ):
        x.nonzero()


def test_a_copy_fails():
    x = matrix()
    with (
        faults.plan("error@copy:1"),
        pytest.raises(torch.AcceleratorError, match="Memcpy"),
    ):
        x.cpu()


def test_a_launch_loses_the_device():
    x = matrix()
    with faults.plan("lost@launch:1") as plan:
        with pytest.raises(torch.AcceleratorError, match="lost"):
            (x + 1).cpu()
        with pytest.raises(torch.AcceleratorError, match="lost"):
            torch.openreg.synchronize()
    assert plan.fired == {"lost": 1}


def test_an_allocation_loses_the_device():
    matrix()
    with (
        faults.plan("lost@alloc:1"),
        pytest.raises(torch.AcceleratorError, match="lost"),
    ):
        torch.empty(4, device="openreg")


def test_slow_work_takes_longer_and_computes_the_same():
    x = matrix()
    begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
    with faults.plan("slow@op:aten::mm:1:20ms") as plan:
        begin.record()
        y = x @ x
        end.record()
        end.synchronize()
    assert begin.elapsed_time(end) >= 20
    assert plan.fired == {"slow": 1}
    assert torch.equal(y.cpu(), x.cpu() @ x.cpu())


@pytest.mark.parametrize("n", [8, 300])
def test_a_flip_changes_one_bit_of_an_output(n):
    x = matrix(n)
    expected = (x @ x).cpu()

    def flipped(seed):
        with faults.plan(f"flip@op:aten::mm:1; seed={seed}") as plan:
            found = (x @ x).cpu()
        assert plan.fired == {"flip": 1}
        return found.view(torch.int32) ^ expected.view(torch.int32)

    seven = flipped(7)
    assert seven.count_nonzero() == 1
    assert bin(seven.sum().item() & 0xFFFFFFFF).count("1") == 1
    assert torch.equal(flipped(7), seven)
    assert not torch.equal(flipped(8), seven)
    assert torch.equal((x @ x).cpu(), expected)


def test_a_flip_in_a_copy_to_the_host_is_seen():
    x = torch.zeros(16, dtype=torch.uint8, device="openreg")
    with faults.plan("flip@copy:1"):
        y = x.cpu()
    assert y.count_nonzero() == 1
    assert x.cpu().count_nonzero() == 0


def test_a_capture_is_invalidated_and_can_be_made_again():
    x = matrix()
    torch.openreg.synchronize()
    with faults.plan("error@capture:1") as plan:
        with (
            pytest.raises(torch.AcceleratorError, match="captur"),
            torch.openreg.graph(torch.openreg.OpenRegGraph()),
        ):
            x + x
        graph = torch.openreg.OpenRegGraph()
        with torch.openreg.graph(graph):
            y = x + x
    assert plan.asked["capture"] == 2
    graph.replay()
    assert torch.equal(y.cpu(), x.cpu() * 2)


def test_a_plan_of_the_environment_is_in_force_from_the_start(run_python):
    code = """
import torch
torch.empty(1, device="openreg")
try:
    torch.empty(1, device="openreg")
except torch.OutOfMemoryError:
    print("out of memory")
"""
    assert run_python(code, OPENREG_FAULTS="oom@alloc:2") == "out of memory"


# --- schedules ----------------------------------------------------------------


def test_a_schedule_is_in_force_inside_its_context():
    x = matrix()
    side = torch.openreg.Stream()
    torch.openreg.synchronize()
    with faults.schedule("adversarial", seed=1) as order:
        with torch.openreg.stream(side):
            y = x + x
        side.synchronize()
    assert [task.name for task in order.tasks].count("aten::add.Tensor") == 1
    assert torch.equal(y.cpu(), x.cpu() * 2)


@pytest.mark.parametrize("delay", [True, False])
def test_only_the_tasks_named_are_delayed(delay):
    x = torch.full((4,), -1.0, device="openreg")
    side = torch.openreg.Stream()
    x.add_(1)  # the first call of its kind is not queued
    torch.openreg.synchronize()
    with faults.schedule("adversarial") as order:
        x.add_(1)
        torch.openreg.synchronize()
    (number,) = [task.number for task in order.tasks if "add" in task.name]
    with faults.schedule("adversarial", delays=[number] if delay else []):
        x.add_(1)
        if not delay:
            torch.openreg.current_stream().synchronize()
        with torch.openreg.stream(side):
            y = x.clone()  # a bug: it does not wait for the other stream
        side.synchronize()
    assert y.tolist() == [1.0 if delay else 2.0] * 4


def test_bad_schedules_are_refused():
    with pytest.raises(ValueError, match="auto, async, adversarial, but got 'x'"):
        faults.schedule("x")
    with pytest.raises(ValueError, match="only the adversarial"):
        faults.schedule("auto", delays=[1])
