"""explore(): each way in which a function can fail to survive a failure is found."""

import threading

import pytest
import torch
from torch import nn

from torch_openreg.openreg.faults._shrink import smallest

explore = torch.openreg.faults.explore
Finding, Task = torch.openreg.faults.Finding, torch.openreg.faults.Task


@pytest.fixture(autouse=True)
def mended():
    yield
    torch.openreg.reset_device(0)


def double():
    return torch.ones(4).to("openreg") * 2


def train():
    """A step of training, all of it on the device."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("openreg")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.randn(3, 4).to("openreg")).square().mean()
    loss.backward()
    optimizer.step()
    return loss, list(model.parameters())


def capture():
    x = torch.ones(4).to("openreg")
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        x.mul_(1)  # PyTorch warns of an empty graph, also if the sum finds no memory
        y = x + x
    graph.replay()
    result = y.cpu()
    graph.reset()
    return result


def test_a_training_step_ends_cleanly_wherever_it_fails():
    found = explore(train)
    found.assert_clean()
    assert found.tried == sum(found.places.values())
    assert found.places["alloc"] > 10 < found.places["launch"]
    assert found.places["copy"] > 2
    assert "all clean" in str(found)


def test_a_capture_ends_cleanly_wherever_it_fails():
    found = explore(capture)
    found.assert_clean()
    assert found.places["capture"] == 1


def test_a_long_function_is_sampled():
    found = explore(train, at_most=2)
    assert found.tried == 2 * len(found.places)
    found.assert_clean()


def test_only_the_sites_asked_for_fail():
    found = explore(double, sites=["copy"])
    assert found.places.keys() == {"copy"}
    found.assert_clean()


def problems(fn, sites=("alloc",), **options):
    found = explore(fn, sites=sites, **options)
    with pytest.raises(AssertionError, match=found.findings[0].problem):
        found.assert_clean()
    return {finding.problem for finding in found.findings}


def test_a_swallowed_failure_is_a_wrong_number():
    def swallow():
        try:
            return double()
        except torch.OutOfMemoryError:
            return torch.zeros(4)

    assert problems(swallow) == {"wrong number"}


def test_a_failure_that_is_handled_is_clean():
    def retry():
        try:
            return double()
        except torch.OutOfMemoryError:
            return double()

    explore(retry, sites=["alloc"]).assert_clean()


def test_another_exception_is_found_unless_it_is_expected():
    def rename():
        try:
            return double()
        except torch.OutOfMemoryError:
            raise KeyError("lost the cause") from None

    assert problems(rename) == {"wrong exception"}
    explore(rename, sites=["alloc"], expected=[KeyError]).assert_clean()


def test_leaked_memory_is_found():
    kept = []

    def leak():
        x = torch.ones(1000, device="openreg")
        try:
            return double()
        except torch.OutOfMemoryError:
            kept.append(x)
            raise

    assert problems(leak) == {"leaked memory"}


def test_state_that_a_failure_leaves_behind_is_found():
    scale = [2]

    def halfway():
        scale[0] += 1
        result = torch.ones(4).to("openreg") * 2
        scale[0] -= 1
        return result * scale[0]

    assert "wrong number afterwards" in problems(halfway)


def test_a_function_that_never_works_again_is_found():
    broken = []

    def once():
        if broken:
            raise RuntimeError("still locked")
        broken.append(1)
        result = double()
        broken.clear()
        return result

    assert "fails afterwards" in problems(once)


def test_a_hang_is_found_and_ends_the_search():
    gate = threading.Event()

    def hang():
        try:
            return double()
        except torch.OutOfMemoryError:
            gate.wait()
            raise

    found = explore(hang, sites=["alloc"], timeout=1)
    gate.set()
    assert [finding.problem for finding in found.findings] == ["hang"]
    assert "gate.wait()" in found.findings[0].detail
    assert not found.complete


def test_a_function_that_does_not_work_is_not_explored():
    def fail():
        raise KeyError("no")

    with pytest.raises(RuntimeError, match="must work before.*KeyError"):
        explore(fail)
    count = iter(range(10))
    with pytest.raises(ValueError, match="different results"):
        explore(lambda: next(count))
    with pytest.raises(ValueError, match="collective, but got 'x'"):
        explore(double, sites=["x"])
    with pytest.raises(ValueError, match="at_most at least 1, but they are 0 and 0"):
        explore(double, at_most=0)


# --- schedules ----------------------------------------------------------------


def two_streams(wait):
    """Work of one stream for another, with or without the wait that it needs."""
    x = torch.zeros(4, device="openreg")
    side = torch.openreg.Stream()
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        x.add_(1)
        x.mul_(3)
    if wait:
        torch.openreg.current_stream().wait_stream(side)
    y = x + 0
    torch.openreg.synchronize()
    return y


@pytest.mark.in_threads("the race does not show in a device process")
def test_a_missing_wait_is_shrunk_to_the_delays_that_show_it():
    found = explore(lambda: two_streams(wait=False), schedules=10)
    (finding,) = found.findings
    assert finding.problem == "wrong number"
    assert 1 <= len(finding.delays) <= 2
    assert "delayed: task" in str(found)


def test_a_failing_schedule_has_a_picture(tmp_path):
    tasks = [Task(i, f"aten::op{i}", i % 2, 0) for i in range(20)]
    finding = Finding("schedule 3", "wrong number", "it differs", [tasks[9]], tasks)
    finding.save(tmp_path / "schedule.html")
    page = (tmp_path / "schedule.html").read_text()
    assert page.count("<rect") == 13  # and not all twenty
    assert page.count('class="missing"') == 1
    assert "task 9 delayed" in page and "stream 1 of device 0" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_a_failure_without_a_schedule_has_no_picture(tmp_path):
    finding = Finding("oom@alloc:1", "leaked memory", "4 bytes are left")
    with pytest.raises(ValueError, match="only a schedule has a picture"):
        finding.save(tmp_path / "page.html")


def test_work_that_is_in_order_passes_under_every_schedule():
    found = explore(lambda: two_streams(wait=True), schedules=10)
    found.assert_clean()
    assert found.schedules == 10
    assert found.tried == 0


def test_shrinking_finds_the_smallest_set():
    asked = []

    def fails(part):
        asked.append(tuple(part))
        return {3, 17} <= set(part)

    assert smallest(list(range(40)), fails) == [3, 17]
    assert len(asked) == len(set(asked)) < 200
    assert smallest([1, 2, 3], lambda part: True) == []
    assert smallest([5], lambda part: bool(part)) == [5]


def test_progress_is_shown_if_it_is_wanted(capsys):
    explore(double, sites=["copy"], progress=True)
    assert "faults" in capsys.readouterr().err
