"""Memory: the figures of the allocator and its cache."""

import ctypes
import gc

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_before", "empty_device")

openreg = torch.openreg
DEVICES = ["openreg:0", "openreg:1"]
KiB, MiB = 1 << 10, 1 << 20


@pytest.fixture
def empty_device():
    """Nothing cached and no peaks, whatever ran before."""
    gc.collect()
    for device in DEVICES:
        openreg.synchronize(device)
    openreg.empty_cache()
    for device in DEVICES:
        openreg.reset_peak_memory_stats(device)
        openreg.reset_accumulated_memory_stats(device)


def take(nbytes, device="openreg"):
    return torch.empty(nbytes, dtype=torch.uint8, device=device)


def change(figure, device="openreg:0"):
    """How much a figure changed when the function is called."""
    before = figure(device)
    return lambda: figure(device) - before


# --- figures ------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_counts_on_its_device_until_it_goes(device):
    (other,) = set(DEVICES) - {device}
    here = change(openreg.memory_allocated, device)
    there = change(openreg.memory_allocated, other)
    x = take(1000, device)
    assert (here(), there()) == (1024, 0)  # rounded up to 512 bytes
    del x
    assert (here(), there()) == (0, 0)


@pytest.mark.parametrize(
    ("nbytes", "allocated", "reserved"),
    [
        (1, 512, 2 * MiB),
        (512, 512, 2 * MiB),
        (MiB, MiB, 2 * MiB),
        (MiB + 1, MiB + 512, 20 * MiB),
        (10 * MiB, 10 * MiB, 10 * MiB),
        (10 * MiB + 1, 10 * MiB + 512, 12 * MiB),
        # What would be split off is too little: the block keeps it.
        (11 * MiB, 12 * MiB, 12 * MiB),
    ],
)
def test_sizes_are_rounded_and_reserved_as_on_cuda(nbytes, allocated, reserved):
    held = change(openreg.memory_allocated), change(openreg.memory_reserved)
    x = take(nbytes)
    assert [figure() for figure in held] == [allocated, reserved]
    del x
    assert [figure() for figure in held] == [0, reserved]


def test_an_empty_tensor_needs_no_memory():
    held = change(openreg.memory_allocated)
    x = take(0)
    assert held() == 0
    assert x.data_ptr() == 0


def test_freed_memory_is_used_again():
    x = take(5 * MiB)
    address = x.data_ptr()
    del x
    assert take(5 * MiB).data_ptr() == address


def test_peaks_stay_until_they_are_reset():
    base = openreg.memory_allocated()
    x = take(4 * MiB)
    del x
    assert openreg.max_memory_allocated() == base + 4 * MiB
    assert openreg.max_memory_reserved() == openreg.memory_reserved()
    openreg.empty_cache()
    assert openreg.max_memory_reserved() > openreg.memory_reserved()
    openreg.reset_peak_memory_stats()
    assert openreg.max_memory_allocated() == base
    assert openreg.max_memory_reserved() == openreg.memory_reserved()


def test_sums_and_counters_can_be_reset():
    x = take(4 * MiB)
    del x
    with pytest.raises(torch.OutOfMemoryError):
        take(1 << 40)
    stats = openreg.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 1
    assert stats["num_ooms"] == stats["num_alloc_retries"] == 1
    openreg.reset_accumulated_memory_stats()
    stats = openreg.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 0
    assert stats["num_ooms"] == stats["num_alloc_retries"] == 0


def test_emptying_the_cache_gives_memory_back_to_the_device():
    free, total = openreg.mem_get_info()
    x = take(100 * MiB)
    assert openreg.mem_get_info() == (free - 100 * MiB, total)
    del x
    assert openreg.mem_get_info() == (free - 100 * MiB, total)
    openreg.empty_cache()
    assert openreg.mem_get_info() == (free, total)


def test_memory_in_use_is_not_in_the_cache():
    x = take(100 * MiB)
    openreg.empty_cache()
    assert openreg.memory_reserved() >= 100 * MiB
    x.fill_(1)
    assert x.sum().item() == 100 * MiB


def test_what_others_use_is_total_less_free_less_reserved(libopenreg):
    """The rule by which vLLM finds the memory of libraries beside PyTorch."""

    def of_others():
        free, total = torch.accelerator.get_memory_info()
        return total - free - torch.accelerator.memory_reserved()

    before = of_others()
    x = take(30 << 20)
    assert of_others() == before
    pointer = ctypes.c_void_p()
    assert libopenreg.orMalloc(ctypes.byref(pointer), 64 << 20) == 0
    assert of_others() == before + (64 << 20)
    del x
    torch.openreg.empty_cache()
    assert of_others() == before + (64 << 20)
    assert libopenreg.orFree(pointer) == 0
    assert of_others() == before


def test_figures_have_the_keys_of_cuda():
    pools, kinds = "all small_pool large_pool", "allocated current freed peak"
    figures = "allocation segment active inactive_split "
    figures += "allocated_bytes reserved_bytes active_bytes inactive_split_bytes "
    figures += "requested_bytes"
    keys = {
        f"{figure}.{pool}.{kind}"
        for figure in figures.split()
        for pool in pools.split()
        for kind in kinds.split()
    }
    keys |= {
        f"oversize_{what}.{kind}"
        for what in ("allocations", "segments")
        for kind in kinds.split()
    }
    keys |= {
        *("num_alloc_retries", "num_ooms", "num_sync_all_streams"),
        *("num_device_alloc", "num_device_free", "max_split_size"),
    }
    stats = openreg.memory_stats()
    assert set(stats) == keys
    assert list(stats) == sorted(stats)
    assert all(type(value) is int for value in stats.values())


def test_the_nested_figures_are_the_flat_ones():
    flat, nested = openreg.memory_stats(), openreg.memory_stats_as_nested_dict()
    for key, value in flat.items():
        inside = nested
        for part in key.split("."):
            inside = inside[part]
        assert inside == value


def test_the_accelerator_tells_the_same_figures():
    x = take(3 * MiB)
    for name in (
        *("memory_allocated", "max_memory_allocated"),
        *("memory_reserved", "max_memory_reserved"),
    ):
        assert getattr(torch.accelerator, name)() == getattr(openreg, name)() > 0
    assert torch.accelerator.get_memory_info() == openreg.mem_get_info()
    stats = torch.accelerator.memory_stats()
    assert stats.items() <= openreg.memory_stats().items() | stats.items()
    assert stats["requested_bytes.all.current"] >= x.nbytes
    del x
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    assert openreg.max_memory_reserved() == openreg.memory_reserved()


def test_figures_are_those_of_the_current_device_by_default():
    x = take(MiB, "openreg:1")
    with openreg.device(1):
        assert openreg.memory_allocated() == openreg.memory_allocated(1) >= x.nbytes


def test_a_process_that_has_not_used_the_device_has_no_figures(run_python):
    code = """
import torch
m = torch.openreg
m.empty_cache()
print(m.memory_allocated(), m.max_memory_reserved(), dict(m.memory_stats()))
print(m.memory_stats_as_nested_dict(), m.is_initialized())
"""
    assert run_python(code) == "0 0 {}\n{} False"


# --- wrong devices ------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "memory_stats",
        "memory_stats_as_nested_dict",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "mem_get_info",
    ],
)
def test_figures_are_those_of_existing_devices(name):
    openreg.init()
    figure = getattr(openreg, name)
    for index in (2, 100, 127, 300):
        with pytest.raises(RuntimeError, match=r"\[0, 2\)"):
            figure(index)
    with pytest.raises(ValueError, match="Expected an openreg device, but got: cpu"):
        figure("cpu")
    with pytest.raises(ValueError, match="Expected a torch.device"):
        figure(0.5)


# --- out of memory ------------------------------------------------------------


def test_out_of_memory_tells_the_figures_and_the_way_out():
    ooms = openreg.memory_stats()["num_ooms"]
    with pytest.raises(openreg.OutOfMemoryError) as caught:
        take(1 << 40)
    text = str(caught.value)
    assert "OpenReg out of memory. Tried to allocate 1024.00 GiB" in text
    assert "total capacity of 16.00 GiB" in text
    assert "OPENREG_DEVICE_MEMORY" in text
    assert openreg.memory_stats()["num_ooms"] == ooms + 1


def test_out_of_memory_is_what_torch_calls_it():
    assert openreg.OutOfMemoryError is torch.OutOfMemoryError
    assert issubclass(openreg.AcceleratorError, RuntimeError)
    assert openreg.AcceleratorError is torch.AcceleratorError


def test_an_output_larger_than_the_device_is_counted_too():
    """It is the kernel that asks for it."""
    x = torch.ones(4, device="openreg")
    failed = openreg.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError):
        x.repeat_interleave(1 << 40)
    assert openreg.memory_stats()["num_ooms"] == failed + 1


def test_the_device_works_after_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError):
        take(1 << 40)
    assert torch.ones(4, device="openreg").sum().item() == 4


def test_the_cache_is_given_up_before_memory_runs_out(run_python):
    code = """
import torch
x = torch.empty(60 << 20, dtype=torch.uint8, device="openreg")
del x
x = torch.empty(80 << 20, dtype=torch.uint8, device="openreg")
stats = torch.openreg.memory_stats()
print(stats["num_alloc_retries"], stats["num_ooms"])
"""
    assert run_python(code, OPENREG_DEVICE_MEMORY="100MiB") == "1 0"


def test_the_capacity_is_the_variables(run_python):
    code = "import torch; print(*map(torch.openreg.mem_get_info, (0, 1)))"
    printed = run_python(code, OPENREG_DEVICE_MEMORY="64MiB,1GiB")
    assert printed == f"({64 * MiB}, {64 * MiB}) ({1024 * MiB}, {1024 * MiB})"


# --- streams ------------------------------------------------------------------


def test_memory_freed_on_one_stream_is_not_handed_to_another():
    x = take(5 * MiB)
    address = x.data_ptr()
    del x
    with openreg.stream(openreg.Stream()):
        y = take(5 * MiB)
    assert y.data_ptr() != address


def test_memory_recorded_for_a_busy_stream_waits_for_it(hold):
    stream = openreg.Stream()
    x = take(5 * MiB)
    address = x.data_ptr()
    gate = hold(stream)
    x.record_stream(stream)
    held = change(openreg.memory_allocated)
    active = change(lambda d: openreg.memory_stats(d)["active_bytes.all.current"])
    del x
    assert (held(), active()) == (-5 * MiB, 0)
    y = take(5 * MiB)
    assert y.data_ptr() != address
    gate.open()
    stream.synchronize()
    assert address in [z.data_ptr() for z in (take(5 * MiB), take(5 * MiB))]


# --- memory by address, and as a table ----------------------------------------


def test_raw_memory_counts_on_its_device_until_it_is_given_back():
    before = openreg.memory_allocated(1)
    address = openreg.caching_allocator_alloc(1000, 1)
    assert openreg.memory_allocated(1) == before + 1024
    openreg.caching_allocator_delete(address)
    assert openreg.memory_allocated(1) == before
    with pytest.raises(RuntimeError, match=f"invalid device pointer: {address:#x}"):
        openreg.caching_allocator_delete(address)


def test_raw_memory_belongs_to_its_stream():
    allocate = openreg.caching_allocator_alloc
    free = openreg.caching_allocator_delete
    side = openreg.Stream()
    address = allocate(1000, stream=side)
    free(address)
    elsewhere = allocate(1000)
    again = allocate(1000, stream=side.openreg_stream)
    assert (elsewhere == address, again == address) == (False, True)
    free(elsewhere)
    free(again)


def test_raw_memory_of_no_bytes_has_no_address():
    assert openreg.caching_allocator_alloc(0) == 0
    openreg.caching_allocator_delete(0)


def cells(summary, title):
    (line,) = [line for line in summary.splitlines() if f" {title} " in line]
    return [" ".join(cell.split()) for cell in line.strip("|").split("|")[1:]]


def test_the_summary_tells_the_figures_of_its_device():
    x = torch.empty(30 * MiB, dtype=torch.uint8, device="openreg:1")
    stats = openreg.memory_stats(x.device)
    summary = openreg.memory_summary(1)
    assert "device ID 1" in summary
    now = stats["allocated_bytes.all.current"]
    assert cells(summary, "Allocated memory")[0] == f"{now >> 10} KiB"
    count = [stats[f"segment.all.{kind}"] for kind in ("current", "peak")]
    assert cells(summary, "GPU reserved segments")[:2] == [str(n) for n in count]
    assert len({len(line) for line in summary.splitlines()}) == 1


def test_the_short_summary_leaves_out_the_pools():
    long, short = (openreg.memory_summary(abbreviated=a) for a in (False, True))
    assert "from large pool" in long
    assert "from large pool" not in short
    assert set(short.splitlines()) < set(long.splitlines())
