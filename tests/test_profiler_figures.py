"""torch.profiler on the device: times, memory, and what else a row can tell."""

import pytest
import torch
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import profile
from traces import BOTH, quickstart, step_of, trace


def test_averages_have_times_of_the_device():
    x = torch.ones(256, 256, device="openreg")
    x @ x
    torch.openreg.synchronize()
    with profile(activities=BOTH) as profiler:
        for _ in range(3):
            x @ x
    averages = profiler.key_averages()
    host, device = (
        next(e for e in averages if e.key == "aten::mm" and e.device_type == kind)
        for kind in (
            torch.autograd.DeviceType.CPU,
            torch.autograd.DeviceType.PrivateUse1,
        )
    )
    assert host.count == device.count == 3
    assert 0 < host.self_device_time_total == host.device_time_total
    assert device.self_device_time_total == host.self_device_time_total
    assert all(e.device_time_total >= 0 for e in averages)
    assert "Self OPENREG" in averages.table(sort_by="self_device_time_total")


def test_the_older_profiler_measures_with_events():
    x = torch.ones(1 << 16, device="openreg")
    x.add_(1)
    with torch.autograd.profiler.profile(use_device="openreg") as profiler:
        x.add_(1)
    (add,) = (e for e in profiler.function_events if e.name == "aten::add_")
    assert 0 < add.device_time_total < 1e6


def test_shapes_stacks_flops_and_modules_are_recorded():
    model = nn.Sequential(nn.Linear(4, 8)).to("openreg")
    x = torch.ones(2, 4, device="openreg")
    options = ("record_shapes", "with_stack", "with_flops", "with_modules")
    told = {"experimental_config": _ExperimentalConfig(verbose=True)}
    with profile(activities=BOTH, **dict.fromkeys(options, True), **told) as profiler:
        model(x)
    (addmm,) = (
        event
        for event in profiler.events()
        if event.name == "aten::addmm" and event.device_type.name == "CPU"
    )
    assert addmm.input_shapes[:3] == [[8], [2, 4], [4, 8]]
    assert addmm.flops == 2 * 2 * 4 * 8
    assert any("test_profiler_figures.py" in line for line in addmm.stack)


def test_memory_is_recorded_with_the_figures_of_the_pool(tmp_path):
    def work():
        x = torch.empty(1 << 20, device="openreg")
        del x

    events = trace(work, tmp_path, profile_memory=True)
    told = [e["args"] for e in events if e["name"] == "[memory]"]
    first, second = (args for args in told if args["Device Type"] != 0)
    assert (first["Bytes"], second["Bytes"]) == (4 << 20, -(4 << 20))
    assert first["Addr"] == second["Addr"]
    assert first["Total Allocated"] - second["Total Allocated"] == 4 << 20
    assert second["Total Allocated"] == torch.openreg.memory_allocated()
    assert second["Total Reserved"] == torch.openreg.memory_reserved()


def test_an_allocation_that_fails_is_recorded():
    with profile(activities=BOTH, profile_memory=True) as profiler:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.uint8, device="openreg")
    assert "[OutOfMemory]" in {event.name for event in profiler.events()}


@pytest.mark.filterwarnings("ignore:`export_memory_timeline` is deprecated")
def test_the_memory_timeline_can_be_drawn(tmp_path):
    step = step_of(quickstart().ConvNet)
    step()
    options = ("record_shapes", "profile_memory", "with_stack")
    with profile(activities=BOTH, **dict.fromkeys(options, True)) as profiler:
        step()
    profiler.export_memory_timeline(str(tmp_path / "m.json"), device="openreg:0")
    assert (tmp_path / "m.json").stat().st_size > 100
