"""A device that poses as an NVIDIA GPU takes what cuDNN takes."""

import pytest

START = """
import torch
from torch import nn

def peak(function):
    "What a call takes beside what it returns."
    torch.openreg.reset_peak_memory_stats()
    kept = function()
    figures = torch.openreg.max_memory_allocated(), torch.openreg.memory_allocated()
    return figures[0] - figures[1], kept

def convolution(*size, batch=8, side=32, dtype=torch.float16, kind=nn.Conv2d, **more):
    "The workspaces of a forward and a backward pass."
    net = kind(*size, **more).to("openreg", dtype)
    image = (side,) * (net.weight.dim() - 2)
    x = torch.empty(batch, size[0], *image, device="openreg", dtype=dtype)
    forward, y = peak(lambda: net(x.requires_grad_()))
    gradient = torch.empty_like(y)
    return forward, peak(lambda: y.backward(gradient))[0]
"""


@pytest.fixture
def run(run_python):
    def go(code, profile="h200", **variables):
        result = run_python(START + code, OPENREG_DEVICE_PROFILE=profile, **variables)
        return result.split()

    return go


def test_a_convolution_copies_its_tensors(run):
    found = run("print(*convolution(64, 64, 3, padding=1))")
    tensors = 2 * (8 * 64 * 32 * 32 * 2) + 64 * 64 * 9 * 2
    assert tensors <= int(found[0]) <= tensors + (1 << 20)
    assert int(found[1]) >= tensors


def test_recorded_convolutions_take_what_they_took(run):
    recorded = {  # on an H200, in bytes
        "64, 64, 3, padding=1": (2244624, 6963655),
        "64, 256, 1": (0, 524288),
        "16, 64, 5, stride=2, padding=2": (1150992, 1253520),
    }
    lines = [f"print(*convolution({code}, dtype=torch.float32))" for code in recorded]
    found = list(map(int, run("\n".join(lines))))
    for index, (forward, backward) in enumerate(recorded.values()):
        assert found[2 * index] == pytest.approx(forward, rel=0.05)
        assert found[2 * index + 1] == pytest.approx(backward, rel=0.05)


@pytest.mark.slow  # the CPU is slow in float16
def test_channels_are_padded(run):
    (found,) = run("print(convolution(60, 60, 3, padding=1)[0])")
    tensors = 8 * 32 * 32 * (64 + 64) * 2 + 64 * 64 * 9 * 2
    assert tensors <= int(found) <= tensors + (1 << 20)


@pytest.mark.slow  # the CPU is slow in float16
def test_all_kinds_of_convolutions_take_memory(run):
    kinds = """
for kind in (nn.Conv1d, nn.Conv3d, nn.ConvTranspose2d):
    print(*convolution(64, 64, 3, batch=2, side=8, kind=kind, padding=1))
print(*convolution(64, 64, 3, batch=2, padding=2, dilation=2))
print(*convolution(64, 64, 3, batch=2, padding=1, dtype=torch.bfloat16))
"""
    assert all(int(figure) > 0 for figure in run(kinds))


@pytest.mark.slow  # the CPU is slow in float16
def test_what_cudnn_does_not_compute_takes_nothing(run):
    others = """
print(*convolution(64, 64, 3, batch=1, side=8, padding=1, dtype=torch.float64))
print(*convolution(64, 64, 3, batch=1, side=8, padding=1, groups=64))
with torch.backends.cudnn.flags(enabled=False):
    print(*convolution(64, 64, 3, batch=1, side=8, padding=1))
torch.backends.cudnn.allow_tf32 = False
print(*convolution(64, 64, 3, batch=1, side=8, padding=1, dtype=torch.float32))
"""
    without = run(others, profile="")
    assert run(others) == without
    usual = "print(*convolution(64, 64, 3))"
    assert run(usual, profile="mi300x") == run(usual, profile="") != run(usual)


def test_too_little_memory_means_another_algorithm(run):
    usual = "print(convolution(64, 64, 3)[0])"
    assert run(usual, OPENREG_DEVICE_MEMORY="16MiB") == ["0"]


@pytest.mark.slow  # the CPU is slow in float16
def test_nobody_touches_a_workspace(run):
    code = """
def touched():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if "RssShmem" in line)

convolution(64, 64, 3, padding=1)
before = touched()
found = convolution(64, 64, 3, padding=1, batch=1, side=112)
tensors = 4 * 64 * 112 * 112 * 2 >> 10
print(found[1] >> 10, touched() - before, tensors)
"""
    workspace, touched, tensors = map(int, run(code))
    assert workspace > tensors // 4
    assert touched < tensors + 3000


RECURRENT = """
def recurrent(kind, width, grad=True, **more):
    net = kind(width, width, **more).to("openreg")
    x = torch.empty(10, 4, width, device="openreg")
    before = torch.openreg.memory_allocated()
    with torch.set_grad_enabled(grad):
        forward, y = peak(lambda: net(x)[0])
    kept = torch.openreg.memory_allocated() - before
    backward = peak(lambda: y.sum().backward())[0] if grad else 0
    return forward, kept, backward
"""
LAYER = 8 << 20  # what each layer has in each direction for its products


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_net_has_a_workspace_and_keeps_a_reserve(run, kind):
    code = f"""
recurrent(nn.{kind}, 64)  # the products of both threads have their workspaces now
for layers, both in ((1, False), (2, True)):
    print(*recurrent(nn.{kind}, 64, num_layers=layers, bidirectional=both))
print(*recurrent(nn.{kind}, 64, grad=False))
"""
    found = list(map(int, run(RECURRENT + code)))
    one, four, no_grad = found[:3], found[3:6], found[6:]
    sequence = 10 * 4 * 64 * 4
    reserve = {"LSTM": 5, "GRU": 6, "RNN": 1}[kind] * sequence
    for figures, count in ((one, 1), (four, 4)):
        forward, kept, backward = figures
        assert LAYER * count <= forward <= (LAYER + (1 << 20)) * count
        assert LAYER * count <= backward
        assert kept >= reserve * count
    assert LAYER <= no_grad[0] and no_grad[1] < 4 * sequence


def test_an_lstm_keeps_no_more_than_cudnn(run):
    code = """
for _ in range(2):
    kept = recurrent(nn.LSTM, 64)[1]
print(kept)
"""
    sequence = 10 * 4 * 64 * 4
    (kept,) = map(int, run(RECURRENT + code))
    assert 6 * sequence < kept < 9 * sequence  # the output, the reserve and states


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_checkpointed_lstm_saves_as_many_tensors_again(run, dtype):
    code = f"""
from torch.utils.checkpoint import checkpoint
nets = [nn.LSTM(128, 128).to("openreg") for _ in range(2)]
x = torch.randn(32, 16, 128, device="openreg", requires_grad=True)
calls = 0
def run(net, v):
    global calls
    calls += 1
    return net(v)[0]
for _ in range(2):
    y = x
    with torch.autocast("openreg", dtype=torch.{dtype}, enabled={dtype != "float32"}):
        for net in nets:
            y = checkpoint(run, net, y, use_reentrant=False)
    print(calls)
    y.float().sum().backward()
print(x.grad.isfinite().all().item())
"""
    assert run(code) == ["2", "6", "True"]  # nothing is computed again before its time


def test_a_recurrent_net_keeps_its_input(run):
    code = """
head = nn.Linear(32, 128).to("openreg")
net = nn.LSTM(128, 128, batch_first=True).to("openreg")
x = torch.randn(16, 32, 32, device="openreg")
def kept():
    before = torch.openreg.memory_allocated()
    y = net(head(x))[0]
    torch.openreg.synchronize()
    return torch.openreg.memory_allocated() - before
kept()  # the products have their workspaces now
print(kept())
"""
    (kept,) = map(int, run(code))
    assert kept >= 7 * (
        16 * 32 * 128 * 4
    )  # the input, the output and five in the block


def test_what_a_recurrent_net_keeps_does_not_lie_where_its_workspace_does(run):
    code = """
first, second = (nn.LSTM(128, 128).to("openreg") for _ in range(2))
x = torch.randn(32, 16, 128, device="openreg")
first(x)  # the products have their workspaces now
torch.openreg.empty_cache()
before = torch.openreg.memory_reserved()
y = second(first(x)[0])[0]
print(torch.openreg.memory_reserved() - before >> 20)
"""
    # The rest of the first segment has room for what one of them keeps.
    (reserved,) = map(int, run(code))
    assert 16 + 20 <= reserved <= 16 + 20 + 8


def test_autocast_halves_the_workspace_of_a_recurrent_net(run):
    code = """
for enabled in (False, False, True, True):
    with torch.autocast("openreg", dtype=torch.bfloat16, enabled=enabled):
        print(recurrent(nn.LSTM, 512)[0] - LAYER)
"""
    code = RECURRENT + f"LAYER = {LAYER}" + code
    found = list(map(int, run(code)))
    assert found[3] < 0.6 * found[1]


def test_an_lstm_trains_as_without_a_profile(run):
    code = """
torch.manual_seed(0)
net = nn.LSTM(32, 32, num_layers=2, bidirectional=True).to("openreg")
x = torch.randn(10, 4, 32, device="openreg", requires_grad=True)
net(x)[0].square().sum().backward()
gradients = [x.grad] + [p.grad for p in net.parameters()]
print(*(g.double().square().sum().item().hex() for g in gradients))
"""
    assert run(code) == run(code, profile="")


@pytest.mark.slow  # the CPU is slow in float16
def test_an_estimate_has_a_row_for_it(run):
    code = """
import torch_openreg.memory
with torch_openreg.memory.estimate() as figures:
    convolution(64, 64, 3, padding=1)
assert figures.devices[0].library_workspace > 1 << 20
figures.show()
"""
    assert "library workspace" in " ".join(run(code))
    assert "not recorded" in " ".join(run(code, profile="l4"))
    plain = code.replace("> 1 << 20", "== 0")
    assert "library" not in " ".join(run(plain, profile=""))
