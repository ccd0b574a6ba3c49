"""The memory of graphs: private pools, and nothing left behind."""

import gc
import os

import pytest
import torch

from torch_openreg import _C

m = torch.openreg
DEVICE = "openreg"
N = 1 << 18  # a MiB of floats


def captured(function, **options):
    graph = m.OpenRegGraph()
    with m.graph(graph, **options):
        result = function()
    return graph, result


@pytest.fixture
def x():
    made = torch.ones(N, device=DEVICE)
    m.synchronize()
    return made


# --- pools ------------------------------------------------------------------------


def test_memory_of_a_graph_is_not_given_to_others(x):
    graph, y = captured(lambda: x * 2 + 1)
    address = y.data_ptr()
    del y
    others = [torch.empty(N, device=DEVICE) for _ in range(20)]
    assert all(other.data_ptr() != address for other in others)
    graph.replay()
    m.synchronize()


def test_graphs_share_a_pool_by_its_id(x):
    first, y = captured(lambda: x * 2)
    reserved = m.memory_reserved()
    second, z = captured(lambda: x * 3, pool=first.pool())
    assert m.memory_reserved() == reserved
    assert second.pool() == first.pool() and y.data_ptr() != z.data_ptr()
    first.replay()
    second.replay()
    assert (y[0].item(), z[0].item()) == (2.0, 3.0)
    address = z.data_ptr()
    del z
    third, again = captured(lambda: x * 4, pool=first.pool())
    assert again.data_ptr() == address
    third.replay()
    second.replay()
    assert again[0].item() == 3.0  # the second wrote to its output again


def test_a_handle_names_a_pool_that_no_graph_has_yet(x):
    handle = m.graph_pool_handle()
    assert handle != m.graph_pool_handle() and handle != m.MemPool().id
    graph, _ = captured(lambda: x + 1, pool=handle)
    assert graph.pool() == handle
    assert graph.pool()[0] == 0 and captured(lambda: x + 1)[0].pool()[1] == 0


def test_what_is_freed_in_a_capture_is_used_again_in_it(x):
    def body():
        addresses = []
        for _ in range(5):
            addresses.append((x + 1).data_ptr())
        return addresses

    _, addresses = captured(body)
    assert len(set(addresses)) == 1


def test_a_pool_goes_back_to_the_device_after_reset(x):
    m.empty_cache()
    before = m.memory_reserved()
    graph, y = captured(lambda: x.repeat(32))
    assert m.memory_reserved() > before
    del y
    m.empty_cache()
    assert m.memory_reserved() > before
    graph.reset()
    m.empty_cache()
    assert m.memory_reserved() <= before + (2 << 20)  # the generator's two numbers


def test_segments_are_mapped_inside_of_a_capture(x):
    graph, y = captured(lambda: torch.zeros(30 << 20, device=DEVICE).add_(1))
    graph.replay()
    assert y[-1].item() == 1.0


def test_a_capture_survives_an_allocation_that_fails(x):
    def body():
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 45, dtype=torch.uint8, device=DEVICE)
        return x + 1

    graph, y = captured(body)
    graph.replay()
    assert y[0].item() == 2.0


# --- checkpoints --------------------------------------------------------------------


def storages(*tensors):
    return [tensor.untyped_storage() for tensor in tensors]


def test_a_pool_is_brought_back_to_the_state_of_an_earlier_capture(x):
    first, y = captured(lambda: x + 1)
    pool = first.pool()
    then = _C._getCheckpointState(0, pool)
    second, z = captured(lambda: x + 2, pool=pool)
    addresses = [y.data_ptr(), z.data_ptr()]
    assert sorted(_C._poolLiveAllocations(0, pool)) == sorted(addresses)

    _C._setCheckpointPoolState(0, then, storages(z), [])
    assert _C._poolLiveAllocations(0, pool) == addresses[:1]
    assert _C._hasStandardDeleter(y.untyped_storage())
    assert not _C._hasStandardDeleter(z.untyped_storage())
    third, again = captured(lambda: x + 3, pool=pool)
    assert again.data_ptr() == addresses[1]
    del z  # which frees nothing
    assert len(_C._poolLiveAllocations(0, pool)) == 2
    third.replay()
    assert again[0].item() == 4.0


def test_memory_that_is_allocated_again_has_an_owner_again(x):
    graph, y = captured(lambda: x + 1)
    pool, address = graph.pool(), y.data_ptr()
    then = _C._getCheckpointState(0, pool)
    _C._freeAndRemoveDeleter(y.untyped_storage())
    assert _C._poolLiveAllocations(0, pool) == [] and y.data_ptr() == address
    _C._setCheckpointPoolState(0, then, [], storages(y))
    assert _C._poolLiveAllocations(0, pool) == [address]
    del y
    assert _C._poolLiveAllocations(0, pool) == []


def test_memory_that_is_allocated_again_for_nobody_is_freed_by_address(x):
    """As Inductor's trees of graphs free outputs that died since a recording."""
    graph, (y, z) = captured(lambda: (x + 1, x + 2))
    pool, addresses = graph.pool(), [y.data_ptr(), z.data_ptr()]
    then = _C._getCheckpointState(0, pool)
    del y, z
    _C._setCheckpointPoolState(0, then, [], [])
    assert sorted(_C._poolLiveAllocations(0, pool)) == sorted(addresses)
    m.caching_allocator_delete(addresses[0])
    assert _C._poolLiveAllocations(0, pool) == addresses[1:]
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        m.caching_allocator_delete(addresses[0])
    _C._setCheckpointPoolState(0, then, [], [])  # both are there again, unowned
    for address in addresses:
        m.caching_allocator_delete(address)
    assert _C._poolLiveAllocations(0, pool) == []


# --- nothing is left behind -----------------------------------------------------------


def figures():
    gc.collect()
    m.synchronize()
    m.empty_cache()
    with open("/proc/self/maps") as maps:
        mapped = sum("openreg" in line or "memfd" in line for line in maps)
    return (
        m.memory_allocated(),
        m.memory_reserved(),
        len(os.listdir("/proc/self/fd")),
        mapped,
    )


def capture_many(times, x):
    for i in range(times):
        graph, y = captured(lambda: torch.rand_like(x).add_(x).relu() @ x)
        graph.replay()
        if i % 2:
            graph.reset()
        del graph, y


@pytest.mark.parametrize(
    "times", [30, pytest.param(1000, marks=pytest.mark.slow)], ids=str
)
def test_captures_and_resets_leave_nothing_behind(times):
    x = torch.ones(64, device=DEVICE)
    capture_many(3, x)
    before = figures()
    capture_many(times, x)
    assert figures() == before
