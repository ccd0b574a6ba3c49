"""What torch.cuda tells of memory, and how it gives and takes it."""

import collections
import contextlib
import gc
import sys
import threading

import torch
from torch.profiler import record_function
from walk import CHECKS, check, raised, report

cuda = torch.cuda
MIB = 1 << 20


def took(make, figure="allocated_bytes.all.current"):
    """What making something adds to a figure, and leaves when it is gone."""
    gc.collect()
    cuda.synchronize()
    before = cuda.memory_stats()[figure]
    kept = make()
    during = cuda.memory_stats()[figure] - before
    del kept
    return during, cuda.memory_stats()[figure] - before


def empty(nbytes, device="cuda"):
    return torch.empty(nbytes, dtype=torch.uint8, device=device)


@contextlib.contextmanager
def history(**options):
    cuda.memory._record_memory_history(**options)
    try:
        yield
    finally:
        cuda.memory._record_memory_history(None)


# --- figures ------------------------------------------------------------------


@check
def sizes_are_rounded_up_to_512_bytes():
    return took(lambda: empty(1)) == (512, 0) and took(lambda: empty(513)) == (1024, 0)


@check
def the_bytes_asked_for_are_told_too():
    return took(lambda: empty(1000), "requested_bytes.all.current") == (1000, 0)


@check
def a_view_takes_no_memory():
    whole = empty(4 * MIB)
    return took(lambda: whole[MIB:].view(-1, 2)) == (0, 0)


@check
def small_and_large_pools_are_told_apart():
    small = took(lambda: empty(1024), "allocated_bytes.small_pool.current")
    large = took(lambda: empty(2 * MIB), "allocated_bytes.large_pool.current")
    return (small, large) == ((1024, 0), (2 * MIB, 0))


@check
def a_peak_stays_until_it_is_reset():
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    empty(8 * MIB)
    peak = cuda.max_memory_allocated()
    cuda.reset_peak_memory_stats()
    return peak == before + 8 * MIB and cuda.max_memory_allocated() == before


@check
def a_freed_block_stays_reserved_until_the_cache_is_emptied():
    cuda.empty_cache()
    before = cuda.memory_reserved()
    empty(40 * MIB)
    reserved = cuda.memory_reserved() - before
    cuda.empty_cache()
    return reserved >= 40 * MIB and cuda.memory_reserved() == before


@check
def a_freed_block_is_given_again():
    first = empty(3 * MIB)
    address = first.data_ptr()
    del first
    return empty(3 * MIB).data_ptr() == address


@check
def free_memory_falls_when_memory_is_reserved():
    cuda.empty_cache()
    free, total = cuda.mem_get_info()
    kept = empty(64 * MIB)
    now, _ = cuda.mem_get_info()
    return kept.is_cuda and free - now >= 64 * MIB and free <= total


@check
def figures_nest_as_their_names_do():
    nested = cuda.memory_stats_as_nested_dict()
    flat = collections.OrderedDict()

    def walk(prefix, value):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(f"{prefix}.{key}" if prefix else key, item)
        else:
            flat[prefix] = value

    nested.pop("reserved_bytes_by_private_pools", None)  # whose names are numbers
    walk("", nested)
    names = {n for n in cuda.memory_stats() if "by_private_pools" not in n}
    return set(flat) == names


@check
def a_summary_has_a_row_for_each_kind():
    text = cuda.memory_summary(abbreviated=False)
    kinds = "Allocated memory", "Active memory", "GPU reserved memory", "Non-releasable"
    return all(kind in text for kind in kinds)


@check
def pinned_memory_is_counted():
    before = cuda.host_memory_stats()["active_bytes.current"]
    kept = torch.empty(MIB, dtype=torch.uint8, pin_memory=True)
    during = cuda.host_memory_stats()["active_bytes.current"] - before
    return kept.is_pinned() and during >= MIB


# --- limits -------------------------------------------------------------------


@check
def too_much_is_an_error_with_the_figures():
    error = raised(cuda.OutOfMemoryError, lambda: empty(1 << 45))
    return all(
        words in str(error)
        for words in ("CUDA out of memory", "Tried to allocate", "GiB is free")
    )


@check
def after_too_much_the_device_works():
    raised(cuda.OutOfMemoryError, lambda: empty(1 << 45))
    return torch.ones(3, device="cuda").sum().item() == 3


@check
def a_fraction_is_a_limit():
    _, total = cuda.mem_get_info()
    cuda.empty_cache()
    cuda.set_per_process_memory_fraction(0.1)
    try:
        error = raised(cuda.OutOfMemoryError, lambda: empty(int(total * 0.2)))
        return "allowed" in str(error)
    finally:
        cuda.set_per_process_memory_fraction(1.0)


@check
def a_fraction_lies_between_0_and_1():
    low = raised(ValueError, lambda: cuda.set_per_process_memory_fraction(-0.1))
    high = raised(ValueError, lambda: cuda.set_per_process_memory_fraction(1.1))
    kind = raised(TypeError, lambda: cuda.set_per_process_memory_fraction(1))
    return bool(low and high and kind)


@check
def cached_blocks_are_freed_before_an_allocation_fails():
    free, _ = cuda.mem_get_info()
    cuda.empty_cache()
    size = free // 10 * 6
    first = empty(size)
    del first
    retries = cuda.memory_stats()["num_alloc_retries"]
    kept = empty(size // 10 * 12)
    again = cuda.memory_stats()["num_alloc_retries"] - retries
    del kept
    cuda.empty_cache()
    return again == 1


@check
def an_observer_hears_of_failures():
    heard = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *told: heard.append(told))
    raised(cuda.OutOfMemoryError, lambda: empty(1 << 45))
    device, allocating, _, free = heard[-1]
    return device == 0 and allocating >= 1 << 45 and free < 1 << 45


# --- raw memory ---------------------------------------------------------------


@check
def raw_memory_is_counted_and_freed():
    before = cuda.memory_allocated()
    address = cuda.caching_allocator_alloc(MIB, 0, cuda.current_stream())
    during = cuda.memory_allocated() - before
    cuda.caching_allocator_delete(address)
    compiles = "torch_openreg.inductor" in sys.modules  # it takes seconds to load
    return (during, cuda.memory_allocated(), compiles) == (MIB, before, False)


@check
def registered_host_memory_is_pinned():
    x = torch.ones(4096)
    runtime = cuda.cudart()
    code = int(runtime.cudaHostRegister(x.data_ptr(), x.nbytes, 0))
    pinned = x.is_pinned()
    return (code, pinned, int(runtime.cudaHostUnregister(x.data_ptr()))) == (0, True, 0)


@check
def the_cache_can_be_off_for_a_while():
    cuda.empty_cache()
    with cuda.memory.caching_allocator_disabled():
        empty(4 * MIB)
        return cuda.memory_stats()["inactive_split_bytes.all.current"] == 0


# --- pools --------------------------------------------------------------------


@check
def a_pool_has_its_own_segments():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        mine = empty(MIB)
    other = empty(MIB)
    (segment,) = pool.snapshot()
    end = segment["address"] + segment["total_size"]
    inside = [segment["address"] <= x.data_ptr() < end for x in (mine, other)]
    return inside == [True, False] and tuple(segment["segment_pool_id"]) == pool.id


@check
def a_pool_is_the_threads_that_uses_it():
    pool, made = cuda.MemPool(), []
    with cuda.use_mem_pool(pool):
        thread = threading.Thread(target=lambda: made.append(empty(MIB)))
        thread.start()
        thread.join()
    return len(made) == 1 and pool.snapshot() == []


@check
def a_pool_is_counted_by_its_users():
    pool = cuda.MemPool()
    alone = pool.use_count()
    with cuda.use_mem_pool(pool):
        return (alone, pool.use_count()) == (1, 2)


# --- snapshots ----------------------------------------------------------------


@check
def a_snapshot_names_the_line_that_allocated():
    with history():
        kept = empty(MIB)
        segments = cuda.memory._snapshot()["segments"]
    blocks = [block for segment in segments for block in segment["blocks"]]
    (mine,) = [b for b in blocks if b["address"] == kept.data_ptr()]
    where = "a_snapshot_names_the_line_that_allocated"
    return any(frame["name"] == where for frame in mine["frames"])


@check
def a_history_has_what_was_allocated_and_freed():
    with history(context=None):
        kept = empty(5 * MIB)
        address = kept.data_ptr()
        del kept
        (trace, *_) = cuda.memory._snapshot()["device_traces"]
    actions = [entry["action"] for entry in trace if entry.get("addr") == address]
    return actions[-3:] == ["alloc", "free_requested", "free_completed"]


@check
def a_history_has_no_more_than_it_may():
    with history(context=None, max_entries=6):
        for _ in range(9):
            empty(512)
        return len(cuda.memory._snapshot()["device_traces"][0]) == 6


@check
def a_history_has_what_record_function_names():
    with history(context=None):
        with record_function("part"):
            empty(MIB)
        told = cuda.memory._snapshot()["external_annotations"]
    return [(x["name"], x["stage"], x["device"]) for x in told[-2:]] == [
        ("part", "START", 0),
        ("part", "END", 0),
    ]


@check
def a_bad_word_for_a_history_is_refused():
    record = cuda.memory._record_memory_history
    return bool(raised(Exception, lambda: record("everything")))


report(CHECKS, CHECKS)
