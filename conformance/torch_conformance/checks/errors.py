"""Level 13: errors and misuse: an answer in words, and a device that works on."""

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error

PAGE = "errors.md"
WRITE = "A check of devices before anything else in a kernel: `checkAllSameDevice`."


def expect_working(device):
    """Fails unless the device still computes."""
    host, x = device.pair(3, 3)
    device.expect_close(x @ x + 1, host @ host + 1, "what comes after the error")


@check(call="cpu_tensor + device_tensor", write=WRITE, page=PAGE)
def the_cpus_tensors_are_refused(device):
    """Tensors of the CPU and the device do not mix."""
    host, x = device.pair(3, 3)
    cases = {
        "x + cpu": lambda: x + host,
        "cpu @ x": lambda: host @ x,
        "x.add_(cpu)": lambda: x.clone().add_(host),
        "cat": lambda: torch.cat([x, host]),
        "linear": lambda: torch.nn.functional.linear(x, host),
        "out= on the CPU": lambda: torch.mul(x, x, out=torch.empty(3, 3)),
        "where": lambda: torch.where(x > 0, x, host),
    }
    for name, function in cases.items():
        expect_error(function, name)
    expect_working(device)


@check(
    call="tensor_of_device_0 + tensor_of_device_1",
    write=WRITE,
    page=PAGE,
    needs=("devices",),
)
def other_devices_tensors_are_refused(device):
    """Tensors of two devices do not mix."""
    _, x = device.pair(3, 3)
    _, y = device.pair(3, 3, index=1)
    for name, function in {
        "x + y": lambda: x + y,
        "x @ y": lambda: x @ y,
        "x.mul_(y)": lambda: x.clone().mul_(y),
        "cat": lambda: torch.cat([x, y]),
    }.items():
        expect_error(function, f"{name} of two devices")
    expect_working(device)


@check(
    call="torch.ones(2, 3) @ torch.ones(2, 3)",
    write="The checks of ATen's meta functions, before work is queued.",
    page=PAGE,
)
def wrong_shapes_are_refused(device):
    """Shapes that do not fit are refused in words."""
    _, x = device.pair(2, 3)
    for name, function in {
        "matmul": lambda: x @ x,
        "add": lambda: x + torch.ones(4, device=device.at()),
        "view": lambda: x.view(4, 4),
        "cat": lambda: torch.cat([x, torch.ones(5, device=device.at())]),
        "a dimension": lambda: x.sum(7),
        "a negative size": lambda: torch.empty(-1, device=device.at()),
    }.items():
        expect_error(function, name, (RuntimeError, IndexError))
    expect_working(device)


@check(
    call="x[torch.tensor([99])]",
    write="Check indices on the device; the error comes when the host synchronises.",
    page=PAGE,
    own_process=True,
)
def indices_out_of_range_are_told(device):
    """An index out of range is an error, at once or when the host waits."""
    _, x = device.pair(3)

    def read():
        return x[torch.tensor([99], device=device.at())].cpu()

    expect_error(read, "x[99] of 3", (RuntimeError, IndexError))


@check(
    call="torch.Generator('NAME:99'), x.to('NAME:99')",
    write="`setDevice()` and `getNewGenerator()` check the index.",
    page=PAGE,
)
def missing_devices_are_told(device):
    """A device that does not exist is refused wherever it is named."""
    far = device.at(device.count)
    for name, function in {
        "empty": lambda: torch.empty(2, device=far),
        "to": lambda: torch.ones(2).to(far),
        "Generator": lambda: torch.Generator(far),
        "current_stream": lambda: torch.accelerator.current_stream(far),
        "synchronize": lambda: torch.accelerator.synchronize(far),
    }.items():
        expect_error(function, f"{name} on {far}", (RuntimeError, ValueError))
    expect_equal(torch.accelerator.current_device_index(), 0, "the current device")
    expect_working(device)


@check(
    call="torch.rand(2, generator=cpu_generator, device=NAME)",
    write="`check_generator` in kernels that draw.",
    page="generator.md",
)
def other_generators_are_refused(device):
    """A generator of the CPU does not serve the device."""
    generator = torch.Generator()
    expect_error(
        lambda: torch.rand(2, generator=generator, device=device.at()),
        "a generator of the CPU",
    )
    expect_working(device)


@check(
    call="torch.OutOfMemoryError in a loop",
    write="Leave the allocator as it was when an allocation fails.",
    page=PAGE,
)
def many_failed_allocations(device):
    """A hundred failed allocations leave the device as it was."""
    for _ in range(100):
        try:
            torch.empty(1 << 58, device=device.at())
        except torch.OutOfMemoryError:
            continue
        expect(False, "2**60 bytes were allocated")
    expect_working(device)
