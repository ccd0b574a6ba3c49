"""Programs of the device are traced, faked, exported and scripted as those of CUDA.
That results look as foretold, operator by operator: conformance/test_meta.py."""

import io

import pytest
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export.passes import move_to_device_pass
from torch.func import grad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional as F
from twins import DEVICE, check, numbers

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 2)
        self.register_buffer("offset", torch.ones(2))

    def forward(self, x):
        return F.relu(self.linear(x)) + self.offset


def given(device):
    return numbers(4, 3, device=device)


# --- fake tensors -------------------------------------------------------------


@pytest.fixture
def fake():
    with FakeTensorMode() as mode:
        yield mode


def test_fake_tensors_have_the_device_and_no_memory(fake):
    before = torch.openreg.memory_allocated(1)
    x = torch.ones(1 << 40, device="openreg:1")  # more than there is
    y = (x * 2 + torch.rand(1, device="openreg:1")).sum()
    assert isinstance(y, FakeTensor)
    assert y.device == torch.device("openreg:1")
    assert torch.openreg.memory_allocated(1) == before


def test_a_fake_tensor_has_an_index(fake):
    assert torch.ones(1, device="openreg").device == torch.device("openreg:0")
    assert torch.ones(1).openreg(1).device == torch.device("openreg:1")
    assert torch.ones(1, device="openreg:1").cpu().device.type == "cpu"


def test_fake_tensors_of_two_devices_do_not_meet(fake):
    x = torch.ones(3, device="openreg:0")
    assert (x * torch.tensor(2.0)).device == x.device  # a number of the CPU may
    for other in (torch.ones(3), torch.ones(3, device="openreg:1")):
        with pytest.raises(RuntimeError) as error:
            x + other
        assert "openreg:0" in str(error.value) and str(other.device) in str(error.value)


def test_a_real_tensor_becomes_a_fake_one():
    mode = FakeTensorMode()
    real = torch.ones(3, 2, device="openreg:1").t()
    x = mode.from_tensor(real)
    assert (x.device, x.stride()) == (real.device, real.stride())
    with mode:
        assert (x @ x.t()).device == real.device
    with mode, pytest.raises(Exception, match="convert all Tensors to FakeTensors"):
        x + real


NETS = {
    "convolution": (lambda d: nn.Conv2d(1, 2, 3, device=d), (2, 1, 5, 5)),
    "norm": (lambda d: nn.BatchNorm1d(3, device=d), (4, 3)),
    "recurrent": (lambda d: nn.LSTM(3, 4, device=d), (5, 2, 3)),
    "attention": (
        lambda d: nn.TransformerEncoderLayer(8, 2, 16, device=d),
        (5, 2, 8),
    ),
}


@pytest.mark.parametrize("make, shape", NETS.values(), ids=NETS)
def test_a_net_is_trained_without_memory(make, shape, fake):
    def case(device):
        net = make(device)
        result = net(torch.rand(shape, device=device))
        result = result[0] if isinstance(result, tuple) else result
        result.sum().backward()
        torch.optim.Adam(net.parameters()).step()
        assert {str(p.grad.device) for p in net.parameters()} == {device}
        return result.shape, result.stride()

    check(case)


# --- torch.fx -----------------------------------------------------------------


def test_a_symbolic_trace_runs_on_the_device():
    def case(device):
        net = fx.symbolic_trace(Net().to(device))
        ShapeProp(net).propagate(given(device))
        shapes = [node.meta["tensor_meta"].shape for node in net.graph.nodes]
        interpreted = fx.Interpreter(net).run(given(device))
        return net(given(device)), interpreted, net.code, shapes

    check(case)


def test_convolutions_and_norms_are_fused():
    from torch.fx.experimental.optimization import fuse  # warns

    def case(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).to(device).eval()
        return fuse(net)(numbers(1, 1, 5, 5, device=device))

    check(case)


TRACED = {
    "factories": lambda x: torch.ones(3, device=x.device) + x.sin().sum(0),
    "random": lambda x: x + torch.rand(3, device=x.device),
    "in place": lambda x: x.clone().add_(1).t().mul_(2),
    "gradient": grad(lambda x: F.layer_norm(x, (3,)).square().sum()),
    "dropout": lambda x: F.dropout(x, 0.5),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3),
}
ACCELERATED = {  # other operators than the CPU's
    "dropout": "native_dropout",
    "attention": "_scaled_dot_product_fused_attention_overrideable",
}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", TRACED)
def test_make_fx_gives_a_graph_that_does_the_same(name, mode):
    def case(device):
        graph = make_fx(TRACED[name], tracing_mode=mode)(given(device))
        torch.manual_seed(0)
        result = graph(given(device))
        if name not in ACCELERATED:
            return result, [str(node.target) for node in graph.graph.nodes]
        assert ACCELERATED[name] in graph.code or device == "cpu"
        return result

    check(case)


# --- torch.export -------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_program_is_exported_saved_and_loaded(dynamic):
    shapes = {"x": {0: torch.export.Dim("batch")}} if dynamic else None

    def case(device):
        program = torch.export.export(
            Net().to(device), (given(device),), dynamic_shapes=shapes
        )
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        loaded = torch.export.load(file)
        assert {str(x.device) for x in loaded.state_dict.values()} == {device}
        x = given(device)[: 3 if dynamic else 4]
        return program.module()(x), loaded.module()(x), str(program.graph)

    check(case)


def test_an_exported_program_changes_its_device():
    program = torch.export.export(Net(), (given("cpu"),))
    moved = move_to_device_pass(program, DEVICE)
    assert torch.equal(moved.module()(given(DEVICE)).cpu(), Net()(given("cpu")))


def test_an_exported_program_is_decomposed():
    net = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, device=DEVICE).eval()
    x = numbers(2, 3, 8, device=DEVICE)
    program = torch.export.export(net, (x,)).run_decompositions()
    torch.testing.assert_close(program.module()(x), net(x))


# --- torch.jit ----------------------------------------------------------------


def scripted(x: torch.Tensor):
    made = torch.zeros(3, device=x.device)
    if x.device.type == "openreg":
        made = made + 1
    return (x + made).tanh().sum(0)


@pytest.mark.parametrize(
    "make",
    [lambda net, x: torch.jit.trace(net, x), lambda net, x: torch.jit.script(net)],
    ids=["trace", "script"],
)
def test_a_script_is_saved_and_loaded_anywhere(make):
    expected = Net()(given("cpu"))
    for device, where in (("cpu", DEVICE), (DEVICE, None), (DEVICE, "cpu")):
        script, file = make(Net().to(device), given(device)), io.BytesIO()
        assert torch.equal(script(given(device)).cpu(), expected)
        torch.jit.save(script, file)
        file.seek(0)
        loaded = torch.jit.load(file, map_location=where)
        place = where or device
        assert loaded.linear.weight.device == torch.device(place)
        assert torch.equal(loaded(given(place)).cpu(), expected)


def test_a_scripted_function_knows_the_device():
    script = torch.jit.script(scripted)
    for _ in range(3):  # the third is optimized by what the others have seen
        x = given(DEVICE).requires_grad_()
        y = script(x)
        y.sum().backward()
    assert torch.equal(y, scripted(x))
    assert torch.equal(x.grad.cpu(), 1 - (given("cpu") + 1).tanh().square())


def test_a_frozen_script_gives_the_same():
    frozen = torch.jit.freeze(torch.jit.script(Net().to(DEVICE).eval()))
    best = torch.jit.optimize_for_inference(frozen)
    for _ in range(3):
        # To rounding: the bias is added to the product, not within it.
        torch.testing.assert_close(best(given(DEVICE)).cpu(), Net()(given("cpu")))


def test_tasks_of_a_script_run_on_the_device():
    @torch.jit.script
    def double(x: torch.Tensor):
        return x * 2

    @torch.jit.script
    def both(x: torch.Tensor):
        task = torch.jit.fork(double, x)
        return x + torch.jit.wait(task)

    assert torch.equal(both(given(DEVICE)), given(DEVICE) * 3)
