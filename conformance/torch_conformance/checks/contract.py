"""Level 13: all of torch.accelerator, and the device's rows in the profiler."""

import torch

from ..check import check
from ..expect import expect, expect_equal

# Need a graph, a stream or figures, which are parts of their own.
ELSEWHERE = {
    "Graph",
    "set_stream",
    "empty_cache",
    "empty_host_cache",
    "get_memory_info",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    # Deprecated.
    "current_device_idx",
    "set_device_idx",
}
ARGUMENTS = {"device_index": (0,), "set_device_index": (0,)}


@check(
    call="torch.accelerator.*",
    write="The method of the guard, the hooks or the allocator that the message names.",
    page="hooks.md",
)
def every_function_answers(device):
    """Each function of torch.accelerator answers for the device."""
    for name in sorted(set(torch.accelerator.__all__) - ELSEWHERE):
        try:
            getattr(torch.accelerator, name)(*ARGUMENTS.get(name, ()))
        except Exception as error:
            expect(False, f"torch.accelerator.{name}() raises {error!r}")


@check(
    call="torch.accelerator.memory_*()",
    write="A `c10::DeviceAllocator` with statistics.",
    page="memory.md",
    needs=("caching",),
)
def every_figure_answers(device):
    """Each function about memory answers for each device."""
    names = [n for n in torch.accelerator.__all__ if "memory" in n]
    for name in [*names, "empty_cache"]:
        try:
            for index in range(device.count):
                getattr(torch.accelerator, name)(*([index] if "memory" in name else []))
        except Exception as error:
            expect(False, f"torch.accelerator.{name}() raises {error!r}")


@check(
    call="torch.accelerator.get_device_capability()",
    write="`getDeviceCapability()` of the guard: the dtypes that the device has.",
    page="device.md",
)
def tells_its_capability(device):
    """The capability names the dtypes that the device has."""
    found = torch.accelerator.get_device_capability(0)["supported_dtypes"]
    missing = [dtype for dtype in device.dtypes if dtype not in found]
    expect(not missing, f"supported_dtypes lacks {missing}")
    absent = [d for d in (torch.float64,) if not device.has("float64") and d in found]
    expect(not absent, f"{absent} is declared absent, but is among supported_dtypes")


@check(
    call="torch.accelerator.device_index(device)",
    write="Nothing beyond the guard.",
    page="device.md",
)
def the_module_agrees(device):
    """The device module and torch.accelerator agree on the current device."""
    for index in range(device.count):
        with torch.accelerator.device_index(index):
            expect_equal(device.module.current_device(), index, "current_device()")
        with device.module.device(index):
            found = torch.accelerator.current_device_index()
            expect_equal(found, index, "current_device_index()")


@check(
    call="torch.profiler.profile()",
    write="Nothing: operators are seen by the dispatcher.",
    page="profiler.md",
)
def the_profiler_sees_operators(device):
    """The profiler names the operators that ran, in a thread of autograd, too."""
    _, x = device.pair(8, 8)
    x.requires_grad_()
    with torch.profiler.profile() as profile:
        (x @ x).sum().backward()
    names = {event.key for event in profile.key_averages()}
    for name in ("aten::mm", "aten::sum", "SumBackward0"):
        expect(name in names, f"the profile has no {name!r}")


@check(
    call="torch.profiler.profile(activities=[ProfilerActivity.PrivateUse1])",
    write="A profiler of the device: `ProfilerStubs`, or a child profiler of Kineto.",
    page="profiler.md",
    needs=("profiler",),
)
def the_profiler_sees_the_device(device):
    """The profiler tells the time that the device took."""
    activities = [
        torch.profiler.ProfilerActivity.CPU,
        torch.profiler.ProfilerActivity.PrivateUse1,
    ]
    _, x = device.pair(64, 64)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(3):
            x = x @ x
        torch.accelerator.synchronize()
    times = [event.device_time_total for event in profile.key_averages()]
    expect(any(time > 0 for time in times), "no event has a time on the device")
