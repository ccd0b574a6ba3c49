"""torch.profiler on the device: rows, arrows, ranges, and who may profile when."""

import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import profile, record_function, schedule
from traces import BOTH, CALL, DEVICE, HOST, WORK, check, end, exported, names, of
from traces import quickstart, step_of, trace

# --- rows -------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["ConvNet", "Transformer"])
def test_a_trace_of_the_quickstart_keeps_the_rules(network, tmp_path):
    events = trace(step_of(getattr(quickstart(), network)), tmp_path)
    (stream,) = check(events)
    assert stream[0] == 0
    kernels = names(of(events, "kernel"))
    assert len(kernels) > 20
    assert all(name.startswith("aten::") for name in kernels)


def test_rows_add_up_to_the_time_that_events_measure(tmp_path, hold):
    """The whole step is queued before the first kernel runs, so that no kernel waits
    for the host."""
    step = step_of(quickstart().ConvNet)
    model = nn.Sequential(*(nn.Linear(512, 512, device="openreg") for _ in range(20)))
    x = torch.ones(512, 512, device="openreg")
    first, last = (torch.openreg.Event(enable_timing=True) for _ in range(2))

    def work():
        model(x).sum().backward()
        step()

    work()
    work()
    torch.openreg.synchronize()
    with profile(activities=BOTH) as profiler:
        gate = hold(torch.openreg.current_stream())
        first.record()
        work()
        last.record()
        gate.open()
    rows = of(exported(profiler, tmp_path), *WORK)
    measured = 1000 * first.elapsed_time(last)
    added = sum(row["dur"] for row in rows if row["name"].startswith("aten::"))
    assert 0.9 * measured <= added <= 1.01 * measured


def test_each_stream_and_device_has_rows_of_its_own(tmp_path):
    streams = [torch.openreg.Stream(device=device) for device in (0, 0, 1)]
    tensors = [torch.ones(8, device=stream.device) for stream in streams]
    torch.openreg.synchronize()

    def work():
        for stream, x in zip(streams, tensors, strict=True):
            with torch.openreg.stream(stream):
                x.add_(1)
            stream.synchronize()

    rows = check(trace(work, tmp_path))
    assert sorted(device for device, _ in rows) == [0, 0, 1]
    assert [names(events) for events in rows.values()] == 3 * [["aten::add_.Tensor"]]


def test_copies_have_sizes_and_directions(tmp_path):
    pinned, pageable = torch.ones(1 << 16).pin_memory(), torch.ones(1 << 16)
    x = torch.empty(1 << 16, device="openreg")

    def work():
        x.copy_(pageable)
        x.copy_(pinned, non_blocking=True)
        pageable.copy_(x)
        pinned.copy_(x, non_blocking=True)
        torch.openreg.synchronize()

    copies = of(trace(work, tmp_path), "gpu_memcpy")
    assert names(copies) == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy DtoH (Device -> Pinned)",
    ]
    for copy in copies:
        assert copy["args"]["bytes"] == 4 << 16
        bandwidth = copy["args"]["memory bandwidth (GB/s)"]
        assert bandwidth == pytest.approx((4 << 16) / (1000 * copy["dur"]), rel=0.01)


def test_work_points_to_the_operator_that_queued_it(tmp_path):
    x = torch.ones(8, device="openreg")
    events = trace(lambda: torch.mm(x[None], x[:, None]).relu_(), tmp_path)
    operators = {e["args"]["External id"]: e["name"] for e in of(events, "cpu_op")}
    told = [
        (operators[row["args"]["External id"]], row["name"])
        for row in of(events, *WORK)
    ]
    assert told[0] == ("aten::mm", "aten::mm")
    assert {host for host, _ in told[1:]} <= {"aten::relu_", "aten::clamp_min_"}


def test_operators_inside_of_kernels_have_no_rows(tmp_path):
    """They run within the call that launches the kernel."""
    matrix, x = torch.eye(4, device="openreg"), torch.ones(1, 2, 4, 4, device="openreg")

    def work():
        torch.linalg.inv(matrix)
        torch.linalg.svd(matrix)
        F.interpolate(x, size=(8, 8), mode="bilinear")
        F.conv2d(x, x, padding=1)
        torch.median(matrix)
        matrix.unique()

    work()
    events = trace(work, tmp_path)
    operators = of(events, "cpu_op")
    launches = [call for call in of(events, CALL) if call["name"] == "orLaunchKernel"]
    assert launches
    inner = [
        operator["name"]
        for launch in launches
        for operator in operators
        if launch["tid"] == operator["tid"]
        and launch["ts"] < operator["ts"] < end(launch)
    ]
    assert inner == []
    of_the_host = trace(work, tmp_path, [HOST])
    assert names(of(of_the_host, "cpu_op")) == names(operators)


def test_a_profile_of_the_host_alone_has_no_rows_of_the_device(tmp_path):
    x = torch.ones(8, device="openreg")
    events = trace(lambda: x.add_(1), tmp_path, [HOST])
    assert of(events, *WORK, CALL) == []
    assert names(of(events, "cpu_op")) == ["aten::add_"]


def test_a_profile_of_the_device_alone_has_no_operators(tmp_path):
    x = torch.ones(8, device="openreg")
    events = trace(lambda: x.add_(1), tmp_path, [DEVICE])
    check(events)
    assert of(events, "cpu_op") == []
    assert names(of(events, *WORK)) == ["aten::add_.Tensor"]


# --- ranges -----------------------------------------------------------------------


def test_ranges_span_the_work_that_was_queued_in_them(tmp_path):
    x = torch.ones(8, device="openreg")

    def work():
        with record_function("outer"):
            x.add_(1)
            with torch.openreg.nvtx.range("inner"):
                x.mul_(2)
                x.sub_(1)
        x.div_(2)

    events = trace(work, tmp_path)
    assert names(of(events, "user_annotation")) == ["outer", "inner"]
    outer, inner = of(events, "gpu_user_annotation")
    add, mul, sub, _ = of(events, "kernel")
    assert (outer["name"], inner["name"]) == ("outer", "inner")
    assert (outer["pid"], outer["tid"]) == (add["pid"], add["tid"])
    assert (outer["ts"], end(outer)) == pytest.approx((add["ts"], end(add)), abs=0.01)
    assert (inner["ts"], end(inner)) == pytest.approx((mul["ts"], end(sub)), abs=0.01)


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_a_schedule_traces_the_active_steps(tmp_path):
    x, seen = torch.ones(8, device="openreg"), []

    def keep(profiler):
        seen.append(exported(profiler, tmp_path))

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=keep) as profiler:
        for _ in range(8):
            x.add_(1)
            torch.openreg.synchronize()
            profiler.step()
    assert len(seen) == 2
    for events, numbers in zip(seen, ((2, 3), (6, 7)), strict=True):
        check(events)
        assert names(of(events, "kernel")) == 2 * ["aten::add_.Tensor"]
        steps = [f"ProfilerStep#{number}" for number in numbers]
        assert names(of(events, "user_annotation")) == steps
        assert names(of(events, "gpu_user_annotation")) == steps


def test_traces_for_tensorboard_are_written(tmp_path):
    x = torch.ones(8, device="openreg")
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path), "worker")
    with profile(activities=BOTH, on_trace_ready=handler):
        x.add_(1)
    (written,) = tmp_path.glob("worker.*.pt.trace.json")
    assert '"kernel"' in written.read_text()


# --- more than one of something -----------------------------------------------------


def test_a_profiler_inside_of_another_takes_its_place(tmp_path):
    """As on the CPU: PyTorch has one at a time."""
    x = torch.ones(8, device="openreg")
    with profile(activities=BOTH) as outer:
        x.add_(1)
        torch.openreg.synchronize()
        with profile(activities=BOTH) as inner:
            x.mul_(2)
        x.sub_(1)
    assert outer.events() == []
    assert names(of(exported(inner, tmp_path), "kernel")) == ["aten::mul_.Tensor"]
    with pytest.raises(RuntimeError, match="not reentrant"):
        with torch.autograd.profiler.profile() as older:
            older.__enter__()


def test_one_profile_follows_another(tmp_path):
    x = torch.ones(8, device="openreg")
    for _ in range(3):
        events = trace(lambda: x.add_(1), tmp_path)
        check(events)
        assert names(of(events, "kernel")) == ["aten::add_.Tensor"]


def test_profiles_start_and_stop_while_kernels_run(tmp_path):
    """Other threads launch all the time; what ran in the window is whole."""
    stop = threading.Event()

    def launch(device):
        x = torch.ones(64, device=device)
        with torch.openreg.stream(torch.openreg.Stream(device)):
            while not stop.is_set():
                x.add_(1)
        torch.openreg.synchronize(device)

    threads = [threading.Thread(target=launch, args=(f"openreg:{i}",)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            with profile(activities=BOTH) as profiler:
                torch.ones(8, device="openreg").add_(1)
            check(exported(profiler, tmp_path), queued_before=True)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_backward_pass_is_traced_on_its_thread(tmp_path):
    x = torch.ones(8, device="openreg", requires_grad=True)
    events = trace(lambda: x.exp().sum().backward(), tmp_path)
    check(events)
    threads = {row["tid"] for row in of(events, CALL) if "Launch" in row["name"]}
    assert len(threads) == 2
    assert of(events, "fwdbwd") != []


IN_PROCESS = """
import torch
from pathlib import Path
from torch.profiler import profile
from traces import BOTH, check, exported, names, of

x = torch.ones(64, 64, device="openreg")
x @ x
torch.openreg.synchronize()
with profile(activities=BOTH) as profiler:
    x @ x
events = exported(profiler, Path("."))
check(events)
(row,) = of(events, "kernel")
print(row["name"], row["dur"] > 0)
"""


def test_kernels_of_a_device_process_are_rows(run_python):
    environment = {
        "OPENREG_EXECUTOR": "process",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    assert run_python(IN_PROCESS, **environment) == "aten::mm True"
