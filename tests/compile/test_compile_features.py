"""What else torch.compile does, on the device: control flow, random numbers, operators
and tensors of one's own, autograd and optimizers inside, and its settings."""

import pytest
import torch
from compiled import DEVICE, check_compiled, check_eager, check_same, compile, move
from groups import numbers
from torch import nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._inductor import config
from torch._inductor.utils import fresh_cache, run_and_get_code
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


# --- control flow and sizes that depend on data -----------------------------------


def branch(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))


def loop(x):
    def go_on(i, x):
        return i < 3

    def body(i, x):
        return i + 1, x * 1.5 + i

    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return torch.while_loop(go_on, body, (start, x))


def scanned(x):
    return scan(lambda a, b: (a + b, a * b), torch.zeros_like(x[0]), x)


def scanned_in_pairs(x):
    return associative_scan(torch.add, x, 0, combine_mode="generic")


def mapped(x):
    return map_over(lambda row, by: row.sin() * by, x, torch.ones_like(x[0]) * 2)


@pytest.mark.parametrize("function", [branch, loop, scanned_in_pairs, mapped, scanned])
def test_control_flow_is_compiled(function):
    check_compiled(function, (numbers(6, 4),), (-numbers(6, 4),), dynamic=False)


def test_a_branch_is_differentiated():
    check_compiled(branch, (numbers(6, 4, grad=True),), dynamic=False)


def test_sizes_that_depend_on_data_do_not_break_the_graph():
    def function(x):
        found = (x > 0).nonzero()
        count = x.sum().abs().long().item()
        torch._check(count < 100)
        return found * 2, torch.ones(count, device=x.device) + 1, x[x > 0].sum()

    settings = dict.fromkeys(
        ("capture_scalar_outputs", "capture_dynamic_output_shape_ops"), True
    )
    with torch._dynamo.config.patch(settings):
        check_compiled(function, (numbers(6, 4) + 1,), (numbers(6, 4) + 2,))


# --- random numbers -----------------------------------------------------------------


def test_compiled_random_numbers_leave_the_generator_of_the_cpu_alone():
    draw = compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(64, device=DEVICE)
    draw(x)
    before = torch.get_rng_state()
    torch.openreg.manual_seed(3)
    first, second = draw(x), draw(x)
    torch.openreg.manual_seed(3)
    assert torch.equal(draw(x), first)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_fallback_random_draws_what_eager_draws():
    def function(x):
        return F.dropout(x, 0.5), torch.rand_like(x), torch.randn(3, device=x.device)

    x = torch.ones(64, device=DEVICE)
    with config.patch(fallback_random=True):
        fast = compile(function)
        fast(x)
        torch.manual_seed(5)
        ours = fast(x)
    torch.manual_seed(5)
    check_same(ours, function(x))


# --- operators and tensors of one's own ----------------------------------------------


@torch.library.custom_op("compile_test::twice", mutates_args=(), device_types="openreg")
def twice(x: torch.Tensor) -> torch.Tensor:
    assert type(x) is torch.Tensor and x.device.type == "openreg"
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


twice.register_autograd(lambda context, grad: grad * 2)


@torch.library.custom_op("compile_test::count_up", mutates_args={"x"})
def count_up(x: torch.Tensor) -> None:
    x += 1


def test_an_operator_of_ones_own_is_called_with_tensors_of_the_device():
    def function(x):
        y = twice(x.sin()) + torch.ops.openreg.custom_abs(x)
        count_up(y)
        return y.cos()

    check_eager(function, numbers(4, 8, grad=True), dynamic=False)


def test_an_operator_that_mutates_is_seen_through_a_view():
    def function(x):
        y = x * 2
        count_up(y[1:])
        return y

    check_eager(function, numbers(4, 8), dynamic=False)


def test_a_tensor_subclass_is_compiled():
    pair = TwoTensor(*move((numbers(4, 4), numbers(4, 4) * 2), DEVICE))
    y = compile(lambda x: x.sin() @ x.t() + 1)(pair)
    assert isinstance(y, TwoTensor)
    for part, of in ((y.a, pair.a), (y.b, pair.b)):
        torch.testing.assert_close(part, of.sin() @ of.t() + 1)


def test_nested_tensors_are_compiled():
    def function(values, offsets):
        x = torch.nested.nested_tensor_from_jagged(values, offsets)
        return (x.sin() * 2).values()

    check_compiled(function, (numbers(6, 4, grad=True), torch.tensor([0, 2, 6])))


# --- autograd and optimizers inside ---------------------------------------------------


def test_the_backward_pass_is_compiled_as_it_runs():
    from torch._dynamo import compiled_autograd

    def gradients(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        loss = net(numbers(6, 4).to(device)).square().sum()
        with compiled_autograd._enable(lambda graph: compile(graph, fullgraph=False)):
            loss.backward()
        return [p.grad for p in net.parameters()]

    check_same(gradients(DEVICE), gradients("cpu"), close=True)


OPTIMIZERS = {
    "Adam": lambda p: torch.optim.Adam(p, 0.1, foreach=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1, foreach=True),
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_optimizer_is_compiled(make):
    def weights(device):
        parameters = [nn.Parameter(numbers(3, 5).to(device)) for _ in range(3)]
        optimizer = make(parameters)
        step = compile(optimizer.step, fullgraph=False)
        for turn in range(3):
            for p in parameters:
                p.grad = p.detach().sin() + turn
            step()
        return parameters

    check_same(weights(DEVICE), weights("cpu"))


def test_a_whole_step_is_compiled():
    def losses(device):
        torch.manual_seed(0)
        net = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        x = numbers(6, 4).to(device)

        def step():
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        fast = compile(step, fullgraph=False)
        return [fast().detach() for _ in range(3)]

    check_same(losses(DEVICE), losses("cpu"))


# --- settings -----------------------------------------------------------------------


def small_net(device=DEVICE):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 2),
    )
    return net.eval().to(device)


def test_a_frozen_net_gives_the_same():
    x = numbers(2, 3, 8, 8).to(DEVICE)
    with torch.no_grad(), config.patch(freezing=True), fresh_cache():
        ours, (code,) = run_and_get_code(compile(small_net()), x)
    torch.testing.assert_close(ours.cpu(), small_net("cpu")(x.cpu()))
    assert "_frozen_param" in code  # weights are constants of the code
    assert "sqrt" not in code  # normalization is part of the convolution's weights


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_templates_are_tried(mode):
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).to(DEVICE)
    x = numbers(16, 32).to(DEVICE)
    with torch.no_grad():
        ours = compile(net, mode=mode)(x)
        torch.testing.assert_close(ours, net(x))


def test_a_template_multiplies():
    net = nn.Linear(64, 64).eval().to(DEVICE)
    x = numbers(16, 64).to(DEVICE)
    settings = {
        "freezing": True,
        "max_autotune": True,
        "max_autotune_gemm_backends": "CPP",
    }
    with torch.no_grad(), config.patch(settings), fresh_cache():
        ours, (code,) = run_and_get_code(compile(net), x)
        torch.testing.assert_close(ours, net(x))
    assert "micro_gemm" in code


def test_a_layer_is_compiled_once_for_all():
    class Layer(nn.Linear):
        def forward(self, x):
            return F.linear(x, self.weight, self.bias).relu()

    net = nn.Sequential(*(Layer(4, 4) for _ in range(4))).to(DEVICE)
    torch._dynamo.reset()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for layer in net:
        layer.compile(fullgraph=True)
    x = numbers(3, 4).to(DEVICE)
    ours = net(x)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before <= 2
    expected = x
    for layer in net:
        expected = F.linear(expected, layer.weight, layer.bias).relu()
    torch.testing.assert_close(ours, expected)


def test_a_region_is_compiled_once_for_all_calls():
    @torch.compiler.nested_compile_region
    def layer(x):
        return x.sin() * 2

    def function(x):
        for _ in range(3):
            x = layer(x)
        return x

    check_compiled(function, (numbers(4, 8, grad=True),), dynamic=False)


def test_dynamo_exports_a_net():
    net = small_net()
    x = numbers(2, 3, 8, 8).to(DEVICE)
    graph, _ = torch._dynamo.export(net)(x)
    assert torch.equal(graph(x), net(x))


def test_a_program_that_was_exported_is_compiled():
    x = numbers(2, 3, 8, 8).to(DEVICE)
    program = torch.export.export(small_net(), (x,)).module()
    with torch.no_grad():
        torch.testing.assert_close(compile(program)(x), small_net()(x))
