"""Where memory was allocated, limits, pools of one's own: as torch.cuda.memory."""

import pickle
import threading

import pytest
import torch

memory = torch.openreg.memory
MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh_cache():
    torch.openreg.synchronize()
    torch.openreg.empty_cache()
    yield
    memory._record_memory_history(None)


def block_of(tensor, segments):
    return next(
        block
        for segment in segments
        for block in segment["blocks"]
        if block["address"] == tensor.data_ptr()
    )


# --- snapshots and history ----------------------------------------------------


def test_a_snapshot_has_segments_with_blocks_without_gaps():
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device="openreg")
    segments = torch.openreg.memory_snapshot()
    reserved = sum(s["total_size"] for s in segments if s["device"] == 0)
    assert reserved == torch.openreg.memory_reserved()
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
        assert address == segment["address"] + segment["total_size"]
    block = block_of(kept, segments)
    assert (block["state"], block["requested_size"]) == ("active_allocated", 3 * MIB)


def test_history_tells_what_happened_and_where():
    memory._record_memory_history()
    kept = torch.empty(30 * MIB, dtype=torch.uint8, device="openreg")
    where = block_of(kept, memory._snapshot()["segments"])["frames"]
    assert any(
        frame["name"] == "test_history_tells_what_happened_and_where" for frame in where
    )
    assert any(frame["filename"].endswith((".cpp", ".so", "??")) for frame in where)
    address = kept.data_ptr()
    del kept
    torch.openreg.empty_cache()
    trace = memory._snapshot()["device_traces"][0]
    mine = [entry["action"] for entry in trace if entry["addr"] == address]
    assert mine == [
        *["segment_alloc", "alloc"],
        *["free_requested", "free_completed", "segment_free"],
    ]
    assert all(entry["size"] == 30 * MIB for entry in trace if entry["addr"] == address)


def test_history_keeps_the_last_entries_and_can_be_without_stacks():
    memory._record_memory_history(context=None, max_entries=4, clear_history=True)
    for _ in range(10):
        torch.empty(512, dtype=torch.uint8, device="openreg")
    trace = memory._snapshot()["device_traces"][0]
    assert len(trace) == 4
    assert all(entry["frames"] == [] for entry in trace)
    memory._record_memory_history(None)
    torch.empty(512, dtype=torch.uint8, device="openreg")
    assert memory._snapshot()["device_traces"][0] == []


def annotate_on_another_thread(name):
    def run():
        with torch.profiler.record_function(name):
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_history_has_what_record_function_names(everywhere):
    memory._record_memory_history(context=None, global_record_annotations=everywhere)
    with torch.openreg.device(1), torch.profiler.record_function("mine"):
        torch.empty(8, device="openreg")
    annotate_on_another_thread("other")
    told = memory._snapshot()["external_annotations"]
    steps = [(x["name"], x["stage"], x["device"]) for x in told]
    mine = [("mine", "START", 1), ("mine", "END", 1)]
    other = [("other", "START", 0), ("other", "END", 0)]
    assert steps == mine + (other if everywhere else [])
    (allocated,) = [
        x for x in memory._snapshot()["device_traces"][1] if x["action"] == "alloc"
    ]
    assert told[0]["time_us"] <= allocated["time_us"] <= told[1]["time_us"]


def test_annotations_are_bounded_and_go_with_the_history():
    memory._record_memory_history(context=None, max_entries=3)
    for i in range(4):
        with torch.profiler.record_function(str(i)):
            pass
    told = memory._snapshot()["external_annotations"]
    assert [x["name"] for x in told] == ["2", "3", "3"]
    memory._record_memory_history(None)
    with torch.profiler.record_function("late"):
        pass
    assert memory._snapshot()["external_annotations"] == []


@pytest.mark.parametrize(
    "arguments", [{"enabled": "some"}, {"context": "free"}, {"stacks": "c"}]
)
def test_bad_words_are_refused(arguments):
    with pytest.raises(ValueError, match=f"but got {next(iter(arguments.values()))}"):
        memory._record_memory_history(**arguments)


def test_a_dumped_snapshot_is_what_the_viewer_reads(tmp_path):
    from torch.cuda import _memory_viz

    memory._record_memory_history()
    kept = torch.empty(5 * MIB, dtype=torch.uint8, device="openreg")
    memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    with open(tmp_path / "snapshot.pickle", "rb") as file:
        snapshot = pickle.load(file)
    assert kept.data_ptr() in {
        block["address"] for s in snapshot["segments"] for block in s["blocks"]
    }
    assert "5.0MiB" in _memory_viz.segsum(snapshot)
    assert "alloc" in _memory_viz.trace(snapshot)
    assert "<script" in _memory_viz.trace_plot(snapshot)


# --- limits and failures ------------------------------------------------------


@pytest.fixture
def fraction():
    yield torch.openreg.set_per_process_memory_fraction
    torch.openreg.set_per_process_memory_fraction(1.0)


def test_a_process_can_be_limited_to_a_part_of_the_memory(fraction):
    total = torch.openreg.mem_get_info()[1]
    fraction(100 * MIB / total)
    assert torch.openreg.get_per_process_memory_fraction() == 100 * MIB / total
    kept = torch.empty(60 * MIB, dtype=torch.uint8, device="openreg")
    before = torch.openreg.memory_stats()
    with pytest.raises(torch.OutOfMemoryError, match=r"100.00 MiB allowed; "):
        torch.empty(60 * MIB, dtype=torch.uint8, device="openreg")
    after = torch.openreg.memory_stats()
    assert after["num_ooms"] == before["num_ooms"] + 1
    assert after["num_alloc_retries"] == before["num_alloc_retries"] + 1
    del kept
    torch.empty(60 * MIB, dtype=torch.uint8, device="openreg")
    # The other device has a limit of its own.
    torch.empty(200 * MIB, dtype=torch.uint8, device="openreg:1")


@pytest.mark.parametrize(
    "value, error", [(1, TypeError), (-0.1, ValueError), (1.1, ValueError)]
)
def test_a_wrong_fraction_changes_nothing(fraction, value, error):
    with pytest.raises(error, match="fraction"):
        fraction(value)
    assert torch.openreg.get_per_process_memory_fraction() == 1


def test_observers_hear_of_failures_before_they_are_raised():
    heard = []
    memory.attach_out_of_memory_observer(lambda *figures: heard.append(figures))
    total = torch.openreg.mem_get_info()[1]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2 * total, dtype=torch.uint8, device="openreg")
    ((device, wanted, allowed, free),) = heard
    assert (device, wanted, allowed) == (0, 2 * total, total)
    assert 0 < free <= total


# --- pools --------------------------------------------------------------------


def test_a_pool_has_segments_of_its_own():
    pool = torch.openreg.MemPool()
    with torch.openreg.use_mem_pool(pool):
        inside = torch.empty(MIB, dtype=torch.uint8, device="openreg")
    outside = torch.empty(MIB, dtype=torch.uint8, device="openreg")
    addresses = [b["address"] for s in pool.snapshot() for b in s["blocks"]]
    assert inside.data_ptr() in addresses
    assert outside.data_ptr() not in addresses
    address = inside.data_ptr()
    del inside
    # What is free in it is for it alone.
    others = [torch.empty(MIB, dtype=torch.uint8).openreg() for _ in range(8)]
    assert address not in [other.data_ptr() for other in others]
    with torch.openreg.use_mem_pool(pool):
        again = torch.empty(MIB, dtype=torch.uint8, device="openreg")
    assert again.data_ptr() == address


def test_a_pool_gives_its_memory_back_when_it_goes():
    reserved = torch.openreg.memory_reserved()
    pool = torch.openreg.MemPool()
    with torch.openreg.use_mem_pool(pool):
        assert pool.use_count() == 2
        kept = torch.empty(30 * MIB, dtype=torch.uint8, device="openreg")
    assert pool.use_count() == 1
    assert torch.openreg.memory_reserved() == reserved + 30 * MIB
    del kept
    assert torch.openreg.memory_reserved() == reserved + 30 * MIB
    del pool
    assert torch.openreg.memory_reserved() == reserved


def test_the_figures_tell_what_each_pool_has_reserved():
    pool = torch.openreg.MemPool()
    with torch.openreg.use_mem_pool(pool):
        kept = torch.empty(30 * MIB, dtype=torch.uint8, device="openreg")
    pools = torch.openreg.memory_stats_as_nested_dict()[
        "reserved_bytes_by_private_pools"
    ]
    assert pools[pool.id]["large_pool"]["current"] == 30 * MIB
    assert pools[pool.id]["small_pool"]["current"] == 0
    first, second = pool.id
    name = f"reserved_bytes_by_private_pools.{first}_{second}.all"
    assert torch.openreg.memory_stats()[f"{name}.current"] == 30 * MIB
    del kept, pool
    stats = torch.openreg.memory_stats()
    assert (stats[f"{name}.current"], stats[f"{name}.freed"]) == (0, 30 * MIB)


def test_a_pool_in_use_cannot_be_entered_again():
    pool = torch.openreg.MemPool()
    with torch.openreg.use_mem_pool(pool):
        with pytest.raises(RuntimeError, match="is in use on openreg:0 already"):
            with torch.openreg.use_mem_pool(pool):
                pass
        kept = torch.empty(MIB, dtype=torch.uint8, device="openreg")
    assert kept.data_ptr() in [
        b["address"] for s in pool.snapshot() for b in s["blocks"]
    ]


# --- settings and pinned memory -----------------------------------------------


def test_settings_can_be_changed_in_a_running_program():
    memory._set_allocator_settings("max_split_size_mb:64")
    assert torch.openreg.memory_stats()["max_split_size"] == 64 * MIB
    with pytest.raises((RuntimeError, ValueError)):
        memory._set_allocator_settings("max_split_size_mb:some")


def test_pinned_memory_has_figures_of_its_own():
    memory.empty_host_cache()
    torch.openreg.reset_accumulated_host_memory_stats()
    torch.openreg.reset_peak_host_memory_stats()
    before = torch.openreg.host_memory_stats()
    pinned = torch.empty(3000, dtype=torch.uint8, pin_memory=True)
    during = torch.openreg.host_memory_stats()
    for key, more in {"active_requests": 1, "active_bytes": 4096}.items():
        assert during[f"{key}.current"] == before[f"{key}.current"] + more
        assert during[f"{key}.peak"] == before[f"{key}.peak"] + more
    del pinned
    after = torch.openreg.host_memory_stats()
    assert after["active_bytes.current"] == before["active_bytes.current"]
    assert after["allocated_bytes.current"] == during["allocated_bytes.current"]
    memory.empty_host_cache()
    after = torch.openreg.host_memory_stats()
    assert after["allocated_bytes.current"] == before["allocated_bytes.current"]
