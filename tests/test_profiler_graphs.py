"""A graph that is launched, in a trace: one call, and a row for each of its nodes."""

import ctypes

import pytest
import torch
from torch.profiler import profile
from traces import BOTH, CALL, check, exported, names, of

BYTES = 64
RELAXED = 2  # orStreamCaptureModeRelaxed


@pytest.fixture
def launch(libopenreg):
    """Launches a graph of two sets in a stream of its own."""
    memory = torch.empty(BYTES, dtype=torch.uint8, device="openreg")
    stream = torch.openreg.Stream()
    torch.openreg.synchronize()
    queue = ctypes.c_void_p(stream.native_handle)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()

    def call(name, *arguments):
        assert getattr(libopenreg, name)(*arguments) == 0, name

    call("orStreamBeginCapture", queue, RELAXED)
    for value in (1, 2):
        pointer = ctypes.c_void_p(memory.data_ptr())
        call("orMemsetAsync", pointer, value, ctypes.c_size_t(BYTES), queue)
    call("orStreamEndCapture", queue, ctypes.byref(graph))
    flags = ctypes.c_ulonglong(0)
    call("orGraphInstantiate", ctypes.byref(executable), graph, flags)
    yield lambda: call("orGraphLaunch", executable, queue)
    stream.synchronize()
    assert memory.tolist() == BYTES * [2]
    call("orGraphExecDestroy", executable)
    call("orGraphDestroy", graph)


def test_nodes_of_a_graph_are_rows_with_its_numbers(launch, tmp_path):
    with profile(activities=BOTH) as profiler:
        launch()
        launch()
    events = exported(profiler, tmp_path)
    check(events)
    assert names(of(events, CALL))[:2] == ["orGraphLaunch", "orGraphLaunch"]
    rows = of(events, "gpu_memset")
    assert names(rows) == 4 * ["Memset (Device)"]
    assert [row["args"]["bytes"] for row in rows] == 4 * [BYTES]
    assert len({row["args"]["graph id"] for row in rows}) == 1
    first, second, *again = (row["args"]["graph node id"] for row in rows)
    assert first != second
    assert again == [first, second]


def test_work_outside_of_graphs_has_no_numbers_of_them(tmp_path):
    x = torch.ones(8, device="openreg")
    with profile(activities=BOTH) as profiler:
        x.add_(1)
    (row,) = of(exported(profiler, tmp_path), "kernel")
    assert not [key for key in row["args"] if "graph" in key]
