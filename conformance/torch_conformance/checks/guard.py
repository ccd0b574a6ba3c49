"""Level 2: the guard, which makes a device current and puts it back."""

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error, in_threads

PAGE = "device.md"


def current():
    """The index of the current device."""
    return torch.accelerator.current_device_index()


@check(
    call="torch.accelerator.device_count()",
    write="`deviceCount()` of the guard, with the number that the module gives.",
    page=PAGE,
)
def counts_as_the_module(device):
    """The guard and the device module count the same devices."""
    expect_equal(torch.accelerator.device_count(), device.count, "the guard's count")


@check(
    call="torch.accelerator.current_device_index()",
    write="`getDevice()` of the guard; a process starts with device 0.",
    page=PAGE,
)
def starts_with_the_first_device(device):
    """Device 0 is current at the start, on each thread."""
    expect_equal(current(), 0, "the current device")
    expect_equal(in_threads(current)[0], 0, "the current device of a new thread")


@check(
    call="torch.accelerator.set_device_index(i)",
    write="`setDevice()` of the guard.",
    page=PAGE,
)
def sets_each_device(device):
    """Each device can be made current."""
    for index in reversed(range(device.count)):
        torch.accelerator.set_device_index(index)
        expect_equal(current(), index, f"the current device after setting {index}")


@check(
    call="with torch.accelerator.device_index(1): ...",
    write="`exchangeDevice()` returns the device that was current;"
    " `uncheckedSetDevice()` puts it back and never throws.",
    page=PAGE,
    needs=("devices",),
)
def puts_the_device_back(device):
    """A context changes the device, and puts it back after an error, too."""
    with torch.accelerator.device_index(1):
        expect_equal(current(), 1, "the current device inside")
    expect_equal(current(), 0, "the current device afterwards")
    try:
        with torch.accelerator.device_index(1):
            raise KeyError
    except KeyError:
        pass
    expect_equal(current(), 0, "the current device after an error")


@check(
    call="torch.accelerator.device_index(None)",
    write="`exchangeDevice()` must do nothing else than change the device.",
    page=PAGE,
    needs=("devices",),
)
def contexts_nest(device):
    """Contexts nest, and one without an index changes nothing."""
    with torch.accelerator.device_index(1):
        with torch.accelerator.device_index(0):
            with torch.accelerator.device_index(None):
                expect_equal(current(), 0, "the current device of the inner context")
        expect_equal(current(), 1, "the current device of the outer context")


# docs:begin one-check
@check(
    call="torch.accelerator.set_device_index(device_count())",
    write="`setDevice()` checks the index: TORCH_CHECK with the index and the number of"
    " devices.",
    page=PAGE,
)
def refuses_a_bad_index(device):
    """An index without a device is refused, and the current device stays."""
    for index in (device.count, device.count + 100):
        expect_error(
            lambda i=index: torch.accelerator.set_device_index(i),
            f"set_device_index({index}) with {device.count} devices",
        )
        expect_equal(current(), 0, "the current device after the error")


# docs:end one-check


@check(
    call="torch.accelerator.set_device_index(1) on another thread",
    write="Keep the current device in a `thread_local`, or ask a driver that does.",
    page=PAGE,
    needs=("devices",),
)
def each_thread_has_its_own(device):
    """Each thread has a current device of its own."""
    in_threads(lambda: torch.accelerator.set_device_index(1))
    expect_equal(current(), 0, "the current device after another thread set its own")


@check(
    call="torch.accelerator.synchronize()",
    write="`synchronizeDevice()` of the guard: waits for all streams of a device;"
    " empty for a device that works synchronously.",
    page=PAGE,
)
def synchronizes(device):
    """Each device can be waited for, and that does not change the current one."""
    torch.accelerator.synchronize()
    for index in range(device.count):
        torch.accelerator.synchronize(index)
        expect_equal(current(), 0, f"the current device after synchronize({index})")


@check(
    call="torch.accelerator.current_stream(i)",
    write="`getStream()` of the guard; without streams the default stream of the device.",
    page=PAGE,
)
def has_a_current_stream(device):
    """Each device has a current stream, which names its device."""
    for index in range(device.count):
        stream = torch.accelerator.current_stream(index)
        expect_equal(stream.device, device.at(index), f"the device of stream {index}")
    expect(
        torch.accelerator.current_stream() == torch.accelerator.current_stream(0),
        "the current stream without an index is not that of the current device",
    )
