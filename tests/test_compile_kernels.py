"""Kernels that Inductor compiles are kernels of the device like all others."""

import os
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor.codecache import PyCodeCache
from torch._inductor.utils import fresh_cache
from torch.profiler import ProfilerActivity, profile

import torch_openreg

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()


def fused(x, y):
    return torch.relu(x + y * 2).cumsum(0)


@pytest.fixture
def compiled():
    return torch.compile(fused)


def pair(device="openreg"):
    torch.manual_seed(0)
    return [torch.randn(64, 8).to(device) for _ in range(2)]


def test_the_compiler_is_loaded_when_something_is_compiled(run_python):
    code = """
import sys, torch
torch._dynamo.list_backends()
print("torch_openreg.inductor" in sys.modules)
import torch._inductor.compile_fx
print("torch_openreg.inductor" in sys.modules)
"""
    assert run_python(code).split() == ["False", "True"]


@pytest.mark.slow
def test_the_trees_of_graphs_may_be_imported_before_the_compiler(run_python):
    code = """
import torch, torch._inductor.cudagraph_trees as trees
print(trees.cudagraphify_impl.__closure__ is not None)
"""
    assert run_python(code) == "True"


def test_a_program_that_does_not_compile_imports_nothing_for_it(run_python):
    code = """
import sys, torch
large = "torch._dynamo", "torch._inductor", "torch_openreg.inductor"
print([name for name in large if name in sys.modules])
"""
    assert run_python(code) == "[]"


def test_a_name_that_pytorch_no_longer_has_is_reported():
    from torch_openreg import _names
    from torch_openreg.inductor import _trees

    sentence = "torch_openreg cannot compile with torch .*: "
    with pytest.raises(ImportError, match=rf"{sentence}torch.nn.modules.linear.Linear"):
        _names.replace(nn.Linear, "no_such_name", lambda original: original)
    gone = {r"\bno_such_function\b": "ours"}
    with (
        mock.patch.object(_trees, "_NAMES", gone),
        pytest.raises(ImportError, match=rf"{sentence}.*no_such_function.* is no more"),
    ):
        _trees._read(os.__file__)


def test_a_compiled_function_has_the_bits_of_the_cpus():
    ours, theirs = torch.compile(fused)(*pair()), torch.compile(fused)(*pair("cpu"))
    assert ours.device == torch.device("openreg:0")
    assert torch.equal(ours.cpu(), theirs)


def test_a_kernel_waits_for_its_turn_in_the_stream(compiled, hold):
    x, y = pair()
    expected = compiled(x, y).cpu()
    gate = hold(torch.openreg.current_stream())
    result = compiled(x, y)
    assert not torch.openreg.current_stream().query()
    gate.open()
    assert torch.equal(result.cpu(), expected)


def test_a_full_queue_lets_other_threads_of_python_run(compiled, hold):
    x, y = pair()
    result = compiled(x, y)
    code = vars(PyCodeCache.modules[-1])
    (kernel,) = [code[name] for name in code if name.startswith("cpp_fused")]
    gate = hold(torch.openreg.current_stream())
    begin, interval = threading.Event(), sys.getswitchinterval()
    opener = threading.Thread(target=lambda: (begin.wait(), gate.open()))
    opener.start()
    sys.setswitchinterval(100)  # none runs unless this one gives way
    try:
        begin.set()
        for _ in range(1100):  # more than a queue holds
            kernel(x, y, result)
    finally:
        sys.setswitchinterval(interval)
        gate.open()
        opener.join()
    torch.openreg.synchronize()


def test_a_kernel_enters_the_current_stream(compiled, hold):
    x, y = pair()
    expected = compiled(x, y).cpu()
    hold(torch.openreg.current_stream())
    with torch.openreg.stream(torch.openreg.Stream()):
        assert torch.equal(compiled(x, y).cpu(), expected)


def test_memory_that_is_freed_meanwhile_is_not_used_before_the_kernel_ran(
    compiled, hold
):
    x, y = pair()
    expected = compiled(x, y).cpu()
    gate = hold(torch.openreg.current_stream())
    result = compiled(x, y)
    del x, y
    others = [torch.full((64, 8), 7.0, device="openreg") for _ in range(8)]
    gate.open()
    assert torch.equal(result.cpu(), expected)
    assert all(other.eq(7).all() for other in others)


def test_a_number_of_the_host_is_read_when_the_function_is_called(hold):
    scale = torch.tensor(3.0)
    times = torch.compile(lambda x: x * scale + 1)
    x = torch.arange(4.0, device="openreg")
    times(x)
    gate = hold(torch.openreg.current_stream())
    result = times(x)
    scale.fill_(100)
    gate.open()
    assert result.tolist() == [1, 4, 7, 10]


def test_each_device_runs_its_own_kernels(compiled):
    expected = compiled(*pair()).cpu()
    result = compiled(*pair("openreg:1"))
    assert result.device == torch.device("openreg:1")
    assert torch.equal(result.cpu(), expected)


def test_one_graph_may_use_two_devices_and_the_cpu():
    def far(x, y):
        return (x + 1).to(y.device) * y, (y - 1).cpu() * 2, x.sin()

    x, y = torch.arange(4.0, device="openreg:0"), torch.ones(4, device="openreg:1")
    results = torch.compile(far, fullgraph=True)(x, y)
    assert [str(r.device) for r in results] == ["openreg:1", "cpu", "openreg:0"]
    for ours, theirs in zip(results, far(x, y), strict=True):
        assert torch.equal(ours, theirs)


def test_a_kernel_is_captured_and_replayed(compiled):
    x, y = pair()
    compiled(x, y)
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        result = compiled(x, y)
    x.fill_(1)
    y.fill_(2)
    graph.replay()
    assert torch.equal(result.cpu(), fused(x.cpu(), y.cpu()))


def test_a_trace_shows_kernels_by_their_generated_names(compiled):
    x, y = pair()
    compiled(x, y)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        compiled(x, y)
        torch.openreg.synchronize()
    ours = torch.autograd.DeviceType.PrivateUse1
    names = [e.name for e in p.events() if e.device_type == ours]
    assert "cpp_fused_add_mul_relu_0" in names


def test_streams_in_compiled_code_are_the_programs_streams(hold):
    side = torch.openreg.Stream()

    def two_streams(x):
        y = x + 1
        side.wait_stream(torch.openreg.current_stream())
        with torch.openreg.stream(side):
            z = y * 2
        torch.openreg.current_stream().wait_stream(side)
        return z + 1

    run = torch.compile(two_streams, fullgraph=True)
    x = torch.arange(4.0, device="openreg")
    run(x)
    gate = hold(side)
    result = run(x)
    assert not torch.openreg.current_stream().query()
    gate.open()
    assert result.tolist() == [3, 5, 7, 9]


def test_an_event_in_compiled_code_comes_after_the_kernels_before_it(hold):
    event = torch.openreg.Event()

    def record(x):
        y = x.sin()
        event.record()
        return y, y.cumsum(0)

    run = torch.compile(record)
    x = torch.zeros(4, device="openreg")
    run(x)
    gate = hold(torch.openreg.current_stream())
    run(x)
    assert not event.query()
    gate.open()


# In a loop that threads share, and in a block that one of several threads runs.
BOUNDS = """
import torch
torch.set_num_threads(2)
pick = torch.compile({function})
x = torch.arange(10.0, device="openreg")
index = torch.arange({count}, device="openreg") % 10
large = torch.ones(200000, device="openreg")
assert torch.equal(pick(x, index, large)[0], x[index] * 2)
index[-7] = 99
try:
    pick(x, index, large)
    torch.openreg.synchronize()
except torch.AcceleratorError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "function, count",
    [
        ("lambda x, i, large: (x[i] * 2,)", 20000),
        ("lambda x, i, large: (x[i] * 2, large.sin() + 1)", 20),
    ],
    ids=["shared", "alone"],
)
def test_a_bad_index_breaks_the_device_and_not_the_process(function, count, run_python):
    told = run_python(BOUNDS.format(function=function, count=count))
    assert "device-side assert triggered" in told
    assert "cpp_fused_" in told and "index out of bounds" in told


def test_a_kernel_runs_in_the_device_process(run_python):
    code = """
import torch
from torch.openreg import fallback_report
f = torch.compile(lambda x, s: (x * s).sin())
s = torch.tensor(2.0)
x = torch.arange(6.0, device="openreg")
print(torch.equal(f(x, s).cpu(), torch.compile(lambda x, s: (x * s).sin())(x.cpu(), s)))
print(fallback_report())
"""
    assert run_python(code, OPENREG_EXECUTOR="process").split("\n")[0] == "True"


# Half a megabyte is nothing to load, but each random number takes ten nanoseconds. A
# thread of OpenMP has the name of the one that made it.
RANDOM = """
import os, torch

torch.set_num_threads(2)
drop = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.1))
x = torch.ones(512, 128, device="openreg")
for _ in range(4):
    drop(x)
torch.openreg.synchronize()
tasks = os.listdir("/proc/self/task")
names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks]
print(names.count("openreg stream"))
"""


@pytest.mark.slow
@pytest.mark.in_threads("the threads of kernels are in the device process")
def test_a_kernel_that_computes_long_gets_all_threads(run_python):
    assert run_python(RANDOM, timeout=120) == "2"


def test_a_mix_up_of_devices_is_refused_with_cudas_sentence(compiled):
    x, y = pair()
    compiled(x, y)
    kernel = torch_openreg._C._loadKernel
    libraries = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.so")
    launch = next(
        kernel(str(library), "add", "rrw", 0)
        for library in libraries
        if b"openreg_run" in library.read_bytes()
    )
    sentence = "Expected all tensors to be on the same device, but found at least two"
    with pytest.raises(RuntimeError, match=f"{sentence} devices, openreg:0 and cpu!"):
        launch(x, y.cpu(), x)
    with pytest.raises(RuntimeError, match=f"{sentence} devices, openreg:0 and open"):
        launch(x, y.to("openreg:1"), x)
    with pytest.raises(TypeError, match="takes 3 arguments, but got 1"):
        launch(x)
    with pytest.raises(TypeError, match="argument 1 must be a tensor, but got int"):
        launch(x, 1, x)


def test_a_cache_of_other_rules_is_not_used():
    from torch_openreg.inductor._rules import Rules

    def misses():
        """Of Inductor's cache of graphs, and of that of AOTAutograd before it."""
        graphs = counters["inductor"]["fxgraph_cache_miss"]
        assert counters["aot_autograd"]["autograd_cache_miss"] == graphs
        return graphs

    counters.clear()
    x = torch.arange(5.0, device="openreg")
    with fresh_cache():
        for uuid, expected in (("one", 1), ("one", 1), ("two", 2)):
            torch._dynamo.reset()
            with mock.patch.object(Rules, "uuid", lambda self, uuid=uuid: uuid):
                torch.compile(lambda x: x * 3 - 1)(x)
            assert misses() == expected
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


@pytest.mark.slow
def test_a_library_that_was_cut_off_is_compiled_again():
    from torch_openreg.inductor._kernels import OpenRegKernelCache

    x = torch.arange(5.0, device="openreg")
    for keep in (0, 40, -100):
        with fresh_cache() as _:
            torch._dynamo.reset()
            torch.compile(lambda x: x * 5 - 1)(x)
            for library in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.so"):
                content = library.read_bytes()
                library.unlink()  # the process has it open
                library.write_bytes(content[:keep])
            torch._dynamo.reset()
            OpenRegKernelCache.cache_clear()
            PyCodeCache.cache_clear()
            assert torch.compile(lambda x: x * 5 - 1)(x).tolist() == [-1, 4, 9, 14, 19]


def test_training_gives_the_losses_of_the_cpu():
    def losses(device):
        torch._dynamo.reset()
        torch.manual_seed(0)
        layers = nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)
        model = nn.Sequential(*layers).to(device)
        step = torch.compile(lambda x: model(x).square().mean())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(8, 16).to(device)
        values = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = step(x)
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        return values

    assert losses("openreg") == losses("cpu")
