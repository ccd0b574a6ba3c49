"""torch.compile with `cpp_wrapper`: the code around kernels is C++ too."""

import pytest
import torch
from compiled import DEVICE, check_compiled, compile, move
from groups import GROUPS, numbers
from torch import nn
from torch._inductor import config
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

m = torch.openreg
CPP = {"options": {"cpp_wrapper": True}}
# As many kinds of calls: kernels, operators with and without `out`, several outputs, a
# list of tensors, operators that have no function of their own, a branch.
SOME = (
    *("linear_and_gelu", "scans_and_sorts", "convolution_and_relu", "attention"),
    *("scatter_and_gather", "factories_and_constants", "copies_inside", "mutation"),
    *("scalar_of_the_cpu", "reductions"),
)


def step(x, y, weight):
    y.add_(1)
    hidden = F.gelu(x @ weight).sort()[0]
    return hidden.softmax(-1), y.view(-1), y[1:], hidden, hidden


def inputs_of_step(**options):
    return numbers(8, 16), numbers(8, 4), numbers(16, 4, **options)


def test_results_changed_inputs_and_gradients_are_those_of_the_cpu():
    inputs = inputs_of_step(grad=True)
    check_compiled(step, inputs, inputs, dynamic=False, **CPP)


def test_outputs_share_memory_as_in_eager_mode():
    x, y, weight = move(inputs_of_step(), DEVICE)
    _, flat, tail, one, other = compile(step, **CPP)(x, y, weight)
    assert flat.data_ptr() == y.data_ptr()
    assert tail.data_ptr() == y[1:].data_ptr()
    assert one.data_ptr() == other.data_ptr()


def test_sizes_are_dynamic():
    def function(x):
        return (x @ x.t()).relu().sum(0), x[1:] * x.shape[0]

    calls = [(numbers(size, 6, grad=True),) for size in (4, 7, 12)]
    check_compiled(function, *calls, dynamic=True, **CPP)


@pytest.mark.parametrize("name", SOME)
def test_a_group_of_operators_is_compiled(name):
    function, make_inputs = GROUPS[name]
    check_compiled(function, make_inputs(6), dynamic=False, **CPP)


def test_a_branch_is_compiled():
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))

    x = numbers(6, 4)
    check_compiled(branch, (x,), (-x,), dynamic=False, **CPP)


def test_training_gives_the_losses_of_the_cpu():
    def losses(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4))
        net.to(device)
        fast = compile(net)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        x = numbers(8, 16).to(device)
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = fast(x).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    with config.patch(cpp_wrapper=True):
        assert losses(DEVICE) == losses("cpu")


def test_random_numbers_are_the_devices():
    draw = compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x), **CPP)
    x = torch.ones(64, device=DEVICE)
    draw(x)
    before = torch.get_rng_state()
    m.manual_seed(3)
    first, second = draw(x), draw(x)
    m.manual_seed(3)
    assert torch.equal(draw(x), first)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


@torch.library.custom_op("cpp_wrapper_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    assert x.device.type == "openreg"
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_operator_of_ones_own_gets_tensors_of_the_device():
    x = numbers(4, 8).to(DEVICE)
    assert torch.equal(compile(lambda x: twice(x + 1), **CPP)(x), (x + 1) * 2)


# --- streams, graphs, traces, devices -----------------------------------------------


def wave(x):
    return (x + 1).sin() * 2


@pytest.fixture
def fast():
    function = compile(wave, **CPP)
    function(torch.ones(4, device=DEVICE))
    return function


def test_a_kernel_waits_for_its_turn_in_the_stream(fast, hold):
    x = torch.zeros(4, device=DEVICE).sub_(1)
    gate = hold(m.current_stream())
    x.sub_(-2)
    result = fast(x)
    assert not m.current_stream().query()
    gate.open()
    torch.testing.assert_close(result.cpu(), wave(torch.ones(4)))


def test_kernels_are_captured_by_a_graph(fast):
    x = torch.zeros(4, device=DEVICE)
    graph = m.OpenRegGraph()
    with m.graph(graph):
        result = fast(x)
    x.fill_(3)
    graph.replay()
    torch.testing.assert_close(result.cpu(), wave(torch.full((4,), 3.0)))


def test_a_trace_shows_kernels_by_their_names(fast):
    x = torch.ones(4, device=DEVICE)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        fast(x)
    assert any(event.key.startswith("cpp_fused") for event in p.key_averages())


def test_a_second_device_has_code_of_its_own(fast):
    x = torch.ones(4, device="openreg:1")
    result = fast(x)
    assert result.device == x.device
    torch.testing.assert_close(result.cpu(), wave(torch.ones(4)))


def test_a_check_that_fails_says_what_failed(run_python):
    code = """
import torch
torch._inductor.config.cpp_wrapper = True
take = torch.compile(lambda x, i: x[i] + 1)
x = torch.ones(4, device="openreg")
take(x, torch.tensor([1], device="openreg"))
try:
    take(x, torch.tensor([7], device="openreg"))
    torch.openreg.synchronize()
except RuntimeError as error:
    print(error)
"""
    assert "index out of bounds" in run_python(code, timeout=300)


def test_streams_inside_are_refused_with_the_way_out():
    other = m.Stream()

    def function(x):
        y = x + 1
        with other:
            return y * 2

    x = torch.ones(4, device=DEVICE)
    with pytest.raises(Exception, match="compile without cpp_wrapper"):
        compile(function, **CPP)(x)
