"""Level 8: the caching allocator: reuse, figures, other streams, the end of memory."""

import gc

import torch

from ..check import check
from ..expect import expect, expect_equal, expect_error

PAGE = "memory.md"
NEEDS = ("caching",)
MEGABYTE = 1 << 20
accelerator = torch.accelerator


def block(device, nbytes=4 * MEGABYTE):
    """A tensor of so many bytes."""
    return torch.empty(nbytes, dtype=torch.uint8, device=device.at())


@check(
    call="torch.accelerator.memory_allocated()",
    write="`getDeviceStats()` of a `c10::DeviceAllocator`: allocated_bytes.",
    page=PAGE,
    needs=NEEDS,
)
def allocated_bytes_come_and_go(device):
    """The allocated bytes grow with a tensor and fall with it."""
    gc.collect()
    before = accelerator.memory_allocated()
    x = block(device)
    during = accelerator.memory_allocated()
    expect(
        4 * MEGABYTE <= during - before < 8 * MEGABYTE,
        f"4 MiB are counted as {during - before} bytes",
    )
    del x
    expect_equal(accelerator.memory_allocated(), before, "the bytes afterwards")


@check(
    call="torch.accelerator.memory_allocated(1)",
    write="Figures per device.",
    page=PAGE,
    needs=("caching", "devices"),
)
def figures_are_per_device(device):
    """A tensor counts on its own device alone."""
    before = [accelerator.memory_allocated(i) for i in range(2)]
    x = torch.empty(MEGABYTE, device=device.at(1))
    after = [accelerator.memory_allocated(i) for i in range(2)]
    expect_equal(after[0], before[0], "the bytes of device 0")
    expect(after[1] > before[1], "the bytes of device 1 do not grow")
    del x


@check(
    call="torch.accelerator.max_memory_allocated(), reset_peak_memory_stats()",
    write="Peaks in `getDeviceStats()`; `resetPeakStats()`.",
    page=PAGE,
    needs=NEEDS,
)
def peaks_are_kept(device):
    """The peak stays when memory is freed, and falls when it is reset."""
    accelerator.reset_peak_memory_stats()
    base = accelerator.max_memory_allocated()
    x = block(device)
    del x
    peak = accelerator.max_memory_allocated()
    expect(peak >= base + 4 * MEGABYTE, f"the peak goes from {base} to {peak} bytes")
    accelerator.reset_peak_memory_stats()
    found = accelerator.max_memory_allocated()
    expect(found < peak, f"the peak is {found} bytes after it was reset")


@check(
    call="torch.accelerator.reset_accumulated_memory_stats()",
    write="`resetAccumulatedStats()`: what was allocated and freed so far becomes 0.",
    page=PAGE,
    needs=NEEDS,
)
def totals_start_again(device):
    """What was allocated and freed since the start can be reset."""
    keys = [f"allocated_bytes.all.{kind}" for kind in ("allocated", "freed")]
    x = block(device)
    del x
    before = [accelerator.memory_stats()[key] for key in keys]
    expect(
        min(before) >= 4 * MEGABYTE, f"{keys} are {before} after 4 MiB came and went"
    )
    accelerator.reset_accumulated_memory_stats()
    found = [accelerator.memory_stats()[key] for key in keys]
    expect_equal(found, [0, 0], f"{keys} after the reset")


@check(
    call="torch.accelerator.memory_reserved(), empty_cache()",
    write="`emptyCache()` gives cached blocks back to the driver.",
    page=PAGE,
    needs=NEEDS,
)
def the_cache_can_be_emptied(device):
    """Freed memory stays reserved until the cache is emptied."""
    x = block(device, 64 * MEGABYTE)
    held = accelerator.memory_reserved()
    del x
    expect(
        accelerator.memory_reserved() >= 64 * MEGABYTE,
        "freed memory is not kept in a cache",
    )
    accelerator.synchronize()
    accelerator.empty_cache()
    left = accelerator.memory_reserved()
    expect(left <= held - 64 * MEGABYTE, f"{left} of {held} bytes stay reserved")


@check(
    call="torch.empty(n) after one of the same size was freed",
    write="Free blocks are kept by size and stream and handed out again.",
    page=PAGE,
    needs=NEEDS,
)
def a_freed_block_is_used_again(device):
    """A block of the same size in the same stream is the freed one."""
    x = block(device)
    address, reserved = x.data_ptr(), accelerator.memory_reserved()
    del x
    y = block(device)
    expect_equal(y.data_ptr(), address, "the address of the second block")
    expect_equal(accelerator.memory_reserved(), reserved, "the reserved bytes")


@check(
    call="del x in one stream, torch.empty() in another",
    write="Free blocks belong to the stream that they were allocated in; another stream"
    " gets one only when the work of the first is done.",
    page=PAGE,
    needs=("caching", "streams"),
)
def blocks_stay_with_their_stream(device):
    """A block that is freed in one stream is not used in another while work runs."""
    elements = 1 << 20
    side = torch.Stream(device=device.at())
    wrong = 0
    for _ in range(3):
        accelerator.synchronize()
        with side:
            x = torch.full((elements,), 4.0, device=device.at())
            device.keep_busy()
            y = x * 2
            del x
        z = torch.full((elements,), -1.0, device=device.at())
        accelerator.synchronize()
        wrong += int((y != 8).any().item())
        del y, z
    expect(
        wrong == 0, f"memory was overwritten while a stream read it, {wrong} of 3 times"
    )


@check(
    call="torch.accelerator.memory_stats()",
    write="All figures of `c10::CachingDeviceAllocator::DeviceStats`.",
    page=PAGE,
    needs=NEEDS,
)
def figures_agree(device):
    """The figures have CUDA's names and agree with each other."""
    stats = accelerator.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes"):
        for kind in ("current", "peak"):
            key = f"{name}.all.{kind}"
            expect(key in stats, f"memory_stats() has no {key!r}")
    current = stats["allocated_bytes.all.current"]
    expect_equal(current, accelerator.memory_allocated(), "allocated_bytes.all.current")
    reserved = stats["reserved_bytes.all.current"]
    expect(current <= reserved, f"{current} bytes are allocated of {reserved} reserved")


@check(
    call="torch.accelerator.get_memory_info()",
    write="`getMemoryInfo()` of the allocator: free and total bytes, from the driver.",
    page=PAGE,
    needs=NEEDS,
)
def knows_the_capacity(device):
    """Free and total memory are told."""
    free, total = accelerator.get_memory_info(0)
    expect(0 < free <= total, f"{free} bytes of {total} are free")


@check(
    call="x.record_stream(s); del x",
    write="A kernel for `record_stream` that reaches `recordStream()` of the allocator: a"
    " block is handed out again when the streams it was used in have passed its end.",
    page=PAGE,
    needs=("caching", "streams"),
)
def record_stream_delays_reuse(device):
    """Memory in use by another stream is not handed out again before that is done."""
    elements = 1 << 20
    side = torch.Stream(device=device.at())
    wrong = 0
    for _ in range(3):
        x = torch.full((elements,), 4.0, device=device.at())
        accelerator.synchronize()
        with side:
            device.keep_busy()
            y = x * 2
        x.record_stream(side)
        del x
        z = torch.full((elements,), -1.0, device=device.at())
        accelerator.synchronize()
        wrong += int((y != 8).any().item())
        del y, z
    expect(
        wrong == 0, f"memory was overwritten while a stream read it, {wrong} of 3 times"
    )


@check(
    call="torch.empty(1 << 50, device=NAME)",
    write="OutOfMemoryError with the sizes: asked for, free, in use.",
    page=PAGE,
    needs=NEEDS,
)
def the_end_of_memory_is_told(device):
    """OutOfMemoryError names the device's memory, and the device works on."""
    error = expect_error(
        lambda: block(device, 1 << 50),
        "a tensor of 2**50 bytes",
        torch.OutOfMemoryError,
    )
    expect("memory" in str(error).lower(), f"the message is {error}")
    device.expect_close(torch.ones(3, device=device.at()), torch.ones(3), "afterwards")


@check(
    call="torch.empty() when the cache holds what is missing",
    write="Before you give up, free the cache and ask the driver once more.",
    page=PAGE,
    needs=("caching", "capacity"),
)
def the_cache_is_given_up_first(device):
    """Cached memory is given back before an allocation fails."""
    accelerator.empty_cache()
    free, _ = accelerator.get_memory_info(0)
    part = free // 8 * 3
    parts = [block(device, part), block(device, part)]
    parts.clear()
    accelerator.synchronize()
    x = block(device, free // 10 * 9)
    expect_equal(x.numel(), free // 10 * 9, "the size of the large tensor")
    del x
    accelerator.empty_cache()
