"""Kernels that Inductor compiles are kernels of the device like all others."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

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
print("torch_openreg.inductor" in sys.modules)
import torch._inductor.compile_fx
print("torch_openreg.inductor" in sys.modules)
"""
    assert run_python(code).split() == ["False", "True"]


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
