"""Level 8: pinned host memory."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from ..check import check
from ..expect import expect, expect_equal

PAGE = "memory.md"
NEEDS = ("pinned",)


@check(
    call="torch.empty(n, pin_memory=True)",
    write="`getPinnedMemoryAllocator()` of the hooks.",
    page=PAGE,
    needs=NEEDS,
)
def memory_can_be_pinned(device):
    """Host tensors can be made in pinned memory, and moved there."""
    made = torch.empty(100, pin_memory=True)
    expect_equal(made.device.type, "cpu", "the device of pinned memory")
    expect_equal(made.is_pinned(), True, "is_pinned()")
    host = torch.arange(100.0)
    expect(host.pin_memory().equal(host), "pin_memory() changes the numbers")


@check(
    call="x.is_pinned()",
    write="`isPinnedPtr()` of the hooks tells pinned memory from other.",
    page=PAGE,
    needs=NEEDS,
)
def tells_pinned_from_other(device):
    """Ordinary memory is not pinned; a view of pinned memory is."""
    expect_equal(torch.ones(100).is_pinned(), False, "is_pinned() of ordinary memory")
    pinned = torch.ones(100).pin_memory()
    expect_equal(pinned[50:].is_pinned(), True, "is_pinned() of a view")


@check(
    call="pinned.to(NAME, non_blocking=True), x.to('cpu', non_blocking=True)",
    write="An asynchronous copy in the current stream.",
    page=PAGE,
    needs=NEEDS,
)
def copies_are_in_stream_order(device):
    """Copies that do not block are ordered with the work of their stream."""
    host = torch.full((1 << 16,), 2.0).pin_memory()
    back = torch.empty(1 << 16, pin_memory=True)
    device.keep_busy(0.05)
    x = host.to(device.at(), non_blocking=True)
    back.copy_(x * 3, non_blocking=True)
    torch.accelerator.synchronize()
    expect(bool((back == 6).all()), "the copy back came before the work")
    x.zero_()
    device.keep_busy(0.05)
    y = x.clone()
    x.copy_(host, non_blocking=True)
    device.expect_close(y, torch.zeros(1 << 16), "what was read before the copy")


@check(
    call="pinned.copy_(x), x.copy_(pinned)",
    write="Without `non_blocking` a copy waits for its end, also from and to pinned memory.",
    page=PAGE,
    needs=("pinned", "streams"),
)
def blocking_copies_are_finished(device):
    """A copy that may block is finished when it returns."""
    host = torch.full((1 << 16,), 2.0).pin_memory()
    back = torch.empty(1 << 16, pin_memory=True)
    x = torch.ones(1 << 16, device=device.at())
    for _ in range(3):
        back.zero_()
        device.keep_busy(0.05)
        back.copy_(x * 3)
        expect(bool((back == 3).all()), "the copy to the host returns before its end")
    for _ in range(3):
        host.fill_(2)
        device.keep_busy(0.05)
        x.copy_(host)
        host.zero_()
        device.expect_close(x, torch.full((1 << 16,), 2.0), "what was copied")


@check(
    call="del pinned while a copy of it is queued",
    write="The pinned allocator records an event for each stream that used a block, and"
    " hands it out again when the event is done.",
    page=PAGE,
    needs=("pinned", "streams"),
)
def freed_memory_waits_for_copies(device):
    """Pinned memory that was freed is not used again before queued copies ran."""
    expected = torch.full((1 << 18,), 5.0)
    results = []
    for _ in range(4):
        host = expected.pin_memory()
        device.keep_busy(0.05)
        results.append(host.to(device.at(), non_blocking=True))
        del host
        torch.full((1 << 18,), -1.0).pin_memory()
    for found in results:
        device.expect_close(found, expected, "what was copied")


@check(
    call="DataLoader(..., pin_memory=True)",
    write="The pinned allocator works on the loader's thread.",
    page=PAGE,
    needs=NEEDS,
)
def data_loaders_pin(device):
    """A DataLoader pins its batches for the device."""
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    expect(all(b.is_pinned() for b in batches), "a batch is not pinned")
    found = torch.cat([b.to(device.at(), non_blocking=True) for b in batches])
    device.expect_close(found, torch.arange(8.0), "the batches")
