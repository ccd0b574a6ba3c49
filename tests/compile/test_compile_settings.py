"""Inductor's settings in the environment, on the device as on the CPU."""

import pytest

pytestmark = pytest.mark.slow

# Trains three steps of a small net on each device; the same bits are expected.
PROGRAM = """
import torch
from torch import nn
from torch._dynamo.utils import counters

def numbers(device):
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 4))
    net.to(device)
    fast = torch.compile(lambda x: net(x).softmax(-1))
    x = torch.randn(8, 16).to(device)
    found = []
    for _ in range(3):
        net.zero_grad()
        y = fast(x)
        y.square().sum().backward()
        found.append(y.detach().cpu())
    return [*found, *(p.grad.cpu() for p in net.parameters())]

print(all(map(torch.equal, numbers("openreg"), numbers("cpu"))))
print(counters["inductor"]["cudagraph_replays"])
"""

SETTINGS = [
    *("COMPILE_THREADS=1", "COMPILE_THREADS=3", "CPP_WRAPPER=1"),
    *("CPP_DYNAMIC_THREADS=1", "CPP_ENABLE_KERNEL_PROFILE=1", "MEMORY_PLANNING=1"),
    *("NAN_ASSERTS=1", "SIZE_ASSERTS=0", "BENCHMARK_KERNEL=1"),
]


def run(run_python, setting, **options):
    name, _, value = setting.partition("=")
    variables = {f"TORCHINDUCTOR_{name}": value}
    return run_python(PROGRAM, timeout=300, **variables, **options)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_gives_the_bits_of_the_cpu(setting, run_python):
    assert run(run_python, setting).split()[0] == "True"


def test_graphs_are_replayed_where_the_environment_asks_for_them(run_python):
    equal, replays = run(run_python, "CUDAGRAPHS=1").split()
    assert equal == "True" and int(replays) > 0


def test_graphs_around_kernels_are_refused_with_the_way_out(run_python):
    failed = run(run_python, "FX_WRAPPER=1", check=False)
    assert "Unset TORCHINDUCTOR_FX_WRAPPER" in failed.stderr
