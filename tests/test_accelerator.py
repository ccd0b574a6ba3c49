"""torch.accelerator: every function of it, on openreg."""

import pytest
import torch

accelerator = torch.accelerator
m = torch.openreg
pytestmark = pytest.mark.usefixtures("as_before")

MIB = 1 << 20


def test_there_is_no_function_that_is_not_tested_here():
    asked = set(ASKED) | set(CHANGING) | {"set_stream", "device_index", "Graph"}
    assert set(accelerator.__all__) <= asked


def of_all_pools(stats):
    """Without the figures of the pools of graphs, which torch.accelerator leaves out."""
    if isinstance(stats, int):
        return stats
    return {k: v for k, v in stats.items() if "by_private_pools" not in k}


# What a function answers, and how torch.openreg would say it.
ASKED = {
    "current_accelerator": lambda: torch.device("openreg"),
    "current_device_idx": m.current_device,
    "current_device_index": m.current_device,
    "current_stream": m.current_stream,
    "device_count": m.device_count,
    "is_available": m.is_available,
    "get_memory_info": m.mem_get_info,
    "max_memory_allocated": m.max_memory_allocated,
    "max_memory_reserved": m.max_memory_reserved,
    "memory_allocated": m.memory_allocated,
    "memory_reserved": m.memory_reserved,
    "memory_stats": lambda: of_all_pools(m.memory_stats()),
    "get_device_capability": lambda: {
        "supported_dtypes": accelerator.get_device_capability(0)["supported_dtypes"]
    },
}


@pytest.mark.filterwarnings("ignore:Use `current_device_index`")
@pytest.mark.parametrize("name", ASKED)
def test_it_answers_as_torch_openreg_does(name):
    m.set_device(1)
    keep = torch.ones(MIB, device="openreg")  # noqa: F841, so that there are figures
    assert getattr(accelerator, name)() == ASKED[name]()


def test_figures_are_those_of_the_device_asked_for():
    keep = torch.ones(MIB, device="openreg:1")
    for name in ("memory_allocated", "max_memory_allocated", "memory_stats"):
        for device in (0, 1, "openreg:1", torch.device("openreg:1")):
            found = getattr(accelerator, name)(device)
            assert found == of_all_pools(getattr(m, name)(device)), name
    assert accelerator.memory_allocated(1) >= keep.nbytes


def grow_and_shrink():
    torch.ones(4 * MIB, device="openreg")


def peak_is_reset():
    grow_and_shrink()
    before = m.max_memory_allocated()
    accelerator.reset_peak_memory_stats()
    return m.max_memory_allocated() == m.memory_allocated() < before


def sums_are_reset():
    grow_and_shrink()
    accelerator.reset_accumulated_memory_stats()
    return m.memory_stats()["allocation.all.allocated"] == 0


def cache_is_emptied():
    grow_and_shrink()
    before = m.memory_reserved()
    accelerator.empty_cache()
    return m.memory_reserved() < before


def host_cache_is_emptied():
    del_me = torch.ones(4 * MIB).pin_memory()
    del del_me
    before = m.host_memory_stats()["allocated_bytes.current"]
    accelerator.empty_host_cache()
    return m.host_memory_stats()["allocated_bytes.current"] < before


def index_is_set(name):
    getattr(accelerator, name)(1)
    return m.current_device() == 1


def waits():
    x = torch.zeros(4, device="openreg")
    m._sleep(1000)
    x.add_(1)
    accelerator.synchronize()
    return m.current_stream().query()


CHANGING = {
    "empty_cache": cache_is_emptied,
    "empty_host_cache": host_cache_is_emptied,
    "reset_accumulated_memory_stats": sums_are_reset,
    "reset_peak_memory_stats": peak_is_reset,
    "set_device_idx": lambda: index_is_set("set_device_idx"),
    "set_device_index": lambda: index_is_set("set_device_index"),
    "synchronize": waits,
}


@pytest.mark.filterwarnings("ignore:Use `set_device_index`")
@pytest.mark.parametrize("name", CHANGING)
def test_it_does_what_torch_openreg_does(name):
    assert CHANGING[name]()


def test_a_stream_becomes_current_with_its_device():
    stream = torch.Stream("openreg:1")
    accelerator.set_stream(stream)
    assert m.current_stream(1) == stream


def test_a_device_is_current_in_a_context():
    with accelerator.device_index(1):
        assert m.current_device() == 1
        with accelerator.device_index(None):
            assert m.current_device() == 1
    assert m.current_device() == 0


def test_every_dtype_is_supported():
    supported = accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float64, torch.bfloat16, torch.complex128} <= supported
