"""Memory without the cache: torch.openreg.caching_allocator_enable(False)."""

import pytest
import torch

m = torch.openreg
MIB = 1 << 20


def mebibytes(n):
    return torch.empty(n * MIB, dtype=torch.uint8, device="openreg")


@pytest.fixture(autouse=True)
def base():
    """What the device has in use beside the tests."""
    m.synchronize()
    m.empty_cache()
    yield m.device_memory_used()
    m.caching_allocator_enable(True)


def test_the_device_is_asked_each_time_and_gets_back_what_is_freed(base):
    figures = m.memory_stats()
    with m.caching_allocator_disabled():
        x = mebibytes(3)
        assert m.device_memory_used() == base + 3 * MIB
        del x
        assert m.device_memory_used() == base
    assert m.memory_stats() == figures
    x = mebibytes(3)
    del x
    assert m.device_memory_used() > base


def test_memory_is_freed_the_way_it_came(base):
    cached = mebibytes(30)
    with m.caching_allocator_disabled():
        uncached = mebibytes(3)
        del cached
    assert m.memory_reserved() >= 30 * MIB
    m.empty_cache()
    assert m.device_memory_used() == base + 3 * MIB
    del uncached
    assert m.device_memory_used() == base


def test_it_does_nothing_before_the_device_starts(run_python):
    code = """
import torch
m = torch.openreg
with m.caching_allocator_disabled():
    x = torch.ones(1, device="openreg")
    print(m.memory_allocated())
"""
    assert run_python(code) == "512"


def test_contexts_put_back_what_was_before():
    m.caching_allocator_enable(False)
    with m.caching_allocator_disabled():
        pass
    before = m.memory_reserved()
    x = mebibytes(30)  # noqa: F841
    assert m.memory_reserved() == before
    m.caching_allocator_enable()
    with pytest.raises(KeyError), m.caching_allocator_disabled():
        raise KeyError
    mebibytes(30)
    assert m.memory_reserved() > before


def step(device):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 8))
    net.to(device)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(torch.ones(4, 8, device=device)).square().sum()
        loss.backward()
        optimizer.step()
    return loss.item(), torch.nonzero(net[0].bias > 0).cpu().tolist()


def test_results_do_not_depend_on_it(base):
    with m.caching_allocator_disabled():
        assert step("openreg") == step("cpu")
    torch.empty(0, device="openreg")
    assert m.device_memory_used() >= base


def test_what_is_freed_inside_of_an_operator_is_given_back_with_the_next(base):
    with m.caching_allocator_disabled():
        x = torch.ones(MIB, dtype=torch.uint8, device="openreg")
        found = x.unique(return_inverse=True)  # its kernel has temporaries
        assert found[0].tolist() == [1]
        del x, found
        mebibytes(1)
        assert m.device_memory_used() == base


def test_freeing_waits_for_the_device(base, run_python):
    code = """
import torch
m = torch.openreg
m.init()
with m.caching_allocator_disabled():
    x = torch.ones(1 << 20, device="openreg")
    m._sleep(100 * m.clock_rate() * 1000)
    event = m.current_stream().record_event()
    del x
    print(event.query())
"""
    assert run_python(code) == "True"


def test_too_much_is_an_error_with_the_figures(base):
    total = m.mem_get_info()[1]
    with m.caching_allocator_disabled():
        with pytest.raises(torch.OutOfMemoryError, match="OpenReg out of memory"):
            torch.empty(2 * total, dtype=torch.uint8, device="openreg")
    assert m.device_memory_used() == base


# --- old names --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("memory_cached", "memory_reserved"),
        ("max_memory_cached", "max_memory_reserved"),
    ],
)
def test_old_names_warn_and_answer_as_the_new(old, new):
    keep = mebibytes(1)  # noqa: F841
    with pytest.warns(FutureWarning, match=f"{old}.*renamed to.*{new}"):
        assert getattr(m, old)() == getattr(m, new)() > 0


@pytest.mark.parametrize(
    "old", ["reset_max_memory_allocated", "reset_max_memory_cached"]
)
def test_old_names_for_a_reset_warn_and_reset_all_peaks(old):
    mebibytes(30)
    m.empty_cache()
    assert m.max_memory_allocated() > m.memory_allocated()
    with pytest.warns(FutureWarning, match=f"{old}.*reset_peak_memory_stats"):
        getattr(m, old)()
    assert m.max_memory_allocated() == m.memory_allocated()
    assert m.max_memory_reserved() == m.memory_reserved()
