"""mode="reduce-overhead": what is compiled is recorded, and replayed."""

import gc
import logging

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config

pytestmark = pytest.mark.filterwarnings("ignore")
m = torch.openreg
DEVICE = "openreg"


@pytest.fixture(
    autouse=True,
    params=[False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["short", "checked"],
)
def nothing_compiled_before(request):
    torch._dynamo.reset()
    counters.clear()
    # Inductor's own checks of what is alive in the pool. With those of each replay
    # there is no shorter way for roots.
    checks = {
        "triton.slow_path_cudagraph_asserts": True,
        "triton.fast_path_cudagraph_asserts": request.param,
    }
    with config.patch(checks):
        yield
    torch._dynamo.reset()


@pytest.fixture
def warnings_of_inductor(caplog):
    """What Inductor tells of graphs that it leaves out."""
    log = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    log.addHandler(caplog.handler)
    yield lambda: caplog.text
    log.removeHandler(caplog.handler)


def counted(name):
    return counters["inductor"][f"cudagraph_{name}"]


def recorded(function, **options):
    return torch.compile(function, mode="reduce-overhead", **options)


def wave(x):
    return torch.relu(x) * 2 + 1


# --- replays ------------------------------------------------------------------------


def test_the_third_call_is_a_replay():
    f, x = recorded(wave), torch.arange(4.0, device=DEVICE)
    figures = []
    for _ in range(5):
        assert torch.equal(f(x.add_(1)), wave(x))
        figures.append((counted("recordings"), counted("replays")))
    assert figures == [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_a_recording_is_replayed_again_without_asking_the_trees(monkeypatch):
    f, x = recorded(wave), torch.arange(4.0, device=DEVICE)
    for _ in range(3):
        f(x)
    from torch_openreg.inductor._trees import trees  # loads Inductor

    manager = trees().CUDAGraphTreeManager
    asked, original = [], manager._run

    def run(*args):
        asked.append(args)
        return original(*args)

    monkeypatch.setattr(manager, "_run", run)
    for _ in range(3):
        assert torch.equal(f(x.add_(1)), wave(x))
    assert counted("replays") == 4
    by_trees = config.triton.fast_path_cudagraph_asserts
    assert len(asked) == (3 if by_trees else 0)


def test_training_replays_forward_and_backward_with_the_losses_of_the_cpu():
    def losses(device, mode):
        torch._dynamo.reset()
        torch.manual_seed(0)
        layers = nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)
        model = nn.Sequential(*layers).to(device)
        compiled = torch.compile(model, mode=mode)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(8, 16).to(device)
        values = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = compiled(x).square().mean()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        return values

    assert losses(DEVICE, "reduce-overhead") == losses("cpu", None)
    assert (counted("recordings"), counted("replays")) == (2, 6)


def test_a_replay_waits_for_its_turn_in_the_stream(hold):
    f, x = recorded(wave), torch.ones(4, device=DEVICE)
    for _ in range(3):
        f(x)
    m.synchronize()
    gate = hold(m.current_stream())
    result = f(x.add_(1))
    assert counted("replays") == 2 and not m.current_stream().query()
    gate.open()
    assert torch.equal(result, wave(torch.full((4,), 2.0, device=DEVICE)))


def test_random_numbers_move_on_with_each_replay():
    def draws(mode):
        torch._dynamo.reset()
        f = torch.compile(lambda x: nn.functional.dropout(x, 0.5), mode=mode)
        torch.manual_seed(3)
        return [f(torch.ones(64, device=DEVICE)).tolist() for _ in range(5)]

    once = draws("reduce-overhead")
    assert counted("replays") == 3 and len({*map(tuple, once)}) == 5
    assert once == draws(None)


def test_parameters_are_read_where_they_are_and_recorded_again_if_they_move():
    model = nn.Linear(4, 4).to(DEVICE)
    f, x = recorded(model), torch.randn(2, 4, device=DEVICE)
    with torch.no_grad():
        for _ in range(4):
            model.weight.mul_(2)
            assert torch.allclose(f(x), model(x))
        assert (counted("recordings"), counted("replays")) == (1, 2)
        model.weight = nn.Parameter(torch.ones(4, 4, device=DEVICE))
        for _ in range(2):
            assert torch.allclose(f(x), model(x))
    assert (counted("recordings"), counted("replays")) == (2, 3)


def test_a_buffer_of_a_module_may_be_changed():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total.add_(x)
            return self.total * 2

    f, x = recorded(Sum().to(DEVICE)), torch.ones(4, device=DEVICE)
    assert [f(x)[0].item() for _ in range(5)] == [2, 4, 6, 8, 10]
    assert counted("replays") == 3


def test_outputs_that_share_memory_still_do():
    def views(x):
        y = x.sin()
        return y, y[1:], x

    f, x = recorded(views), torch.randn(3, 4, device=DEVICE)
    for _ in range(4):
        y, tail, same = f(x)
    assert counted("replays") == 2 and same is x
    assert tail.data_ptr() == y[1:].data_ptr()
    assert torch.allclose(y, x.sin())


def test_each_size_has_a_recording_of_its_own():
    f = recorded(lambda x: x.softmax(0) * 2, dynamic=True)
    for n in (3, 4, 5) * 3:
        x = torch.randn(n, device=DEVICE)
        assert torch.allclose(f(x), x.softmax(0) * 2)
    assert (counted("recordings"), counted("replays")) == (3, 3)


def test_each_device_has_trees_of_its_own():
    f = recorded(wave)
    for i in range(5):
        x, y = (torch.full((4,), float(i), device=f"{DEVICE}:{n}") for n in (0, 1))
        assert torch.equal(f(x), wave(x)) and torch.equal(f(y), wave(y))
    assert counted("recordings") == 2 and counted("replays") == 6


# --- outputs ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [lambda y: y + 1, lambda y: y.cpu(), lambda y: y.mul_(2), lambda y: y.softmax(0)],
    ids=["add", "copy", "mul_", "softmax"],
)
def test_an_output_that_was_overwritten_says_so(use):
    f, x = recorded(wave), torch.ones(4, device=DEVICE)
    old = f(x)
    view = old[1:]
    f(x)
    for tensor in (old, view):
        with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
            use(tensor)


def test_an_output_of_a_replay_is_the_same_tensor_in_the_next():
    f, x = recorded(wave), torch.ones(4, device=DEVICE)
    for _ in range(3):
        old = f(x)
    f(x * 2)
    assert torch.equal(old, wave(x * 2))


def test_outputs_of_one_step_live_until_the_next_begins():
    f, x = recorded(wave), torch.ones(4, device=DEVICE)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        y = f(x)
        z = f(y)
        assert torch.equal(z, wave(y)) and torch.equal(y, wave(x))
    assert counted("replays") == 4


def test_memory_goes_back_with_the_function():
    gc.collect()
    m.empty_cache()
    before = m.memory_allocated(), m.memory_reserved()
    f, x = recorded(wave), torch.randn(1 << 20, device=DEVICE)
    for _ in range(4):
        f(x)
    assert counted("replays") == 2 and m.memory_reserved() > before[1]
    del f, x
    torch._dynamo.reset()
    gc.collect()
    m.empty_cache()
    assert (m.memory_allocated(), m.memory_reserved()) == before


# --- what is not recorded -----------------------------------------------------------


def test_an_input_that_is_changed_is_no_part_of_a_recording(warnings_of_inductor):
    def double(x):
        x.add_(1)
        return x * 2

    f, x = recorded(double), torch.zeros(4, device=DEVICE)
    assert [f(x)[0].item() for _ in range(4)] == [2, 4, 6, 8]
    assert "skipping cudagraphs due to mutated inputs" in warnings_of_inductor()
    assert counted("recordings") == 0 and counted("skips") == 1


def test_a_tensor_of_the_cpu_is_read_at_each_call():
    f = recorded(lambda x, scale: (x * scale).cos() + x.sum())
    x, scale = torch.ones(4, device=DEVICE), torch.tensor(1.0)
    for i in range(4):
        scale.fill_(i)
        assert torch.allclose(f(x, scale).cpu(), (torch.ones(4) * scale).cos() + 4)
    assert counted("replays") == 2  # of the part that does not read it


@config.patch(graph_partition=False)
def test_without_partitions_a_tensor_of_the_cpu_is_a_reason(warnings_of_inductor):
    f, x = recorded(lambda x, scale: x * scale), torch.ones(4, device=DEVICE)
    for i in range(3):
        assert f(x, torch.tensor(float(i)))[0].item() == i
    assert "skipping cudagraphs due to cpu device" in warnings_of_inductor()
    assert counted("recordings") == 0


def test_two_devices_in_one_graph_are_a_reason(warnings_of_inductor):
    f = recorded(lambda x, y: x + y.to(x.device))
    x, y = torch.ones(4, device="openreg:0"), torch.ones(4, device="openreg:1")
    assert [f(x, y).tolist() for _ in range(3)] == [[2.0] * 4] * 3
    assert "multiple devices: device(type='openreg'" in warnings_of_inductor()


def test_branches_and_numbers_for_the_host_are_left_out_of_recordings():
    def body(x):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return y * 2

    f = recorded(body)
    results = [f(torch.full((4,), i - 1.5, device=DEVICE))[0].item() for i in range(4)]
    assert results == [-5, -3, 3, 5]
    assert counted("replays") > 0


@config.patch({"triton.cudagraph_or_error": True})
def test_a_reason_can_be_an_error():
    f = recorded(lambda x, y: x + y.to(x.device))
    with pytest.raises(RuntimeError, match="skipping cudagraphs"):
        f(torch.ones(4, device="openreg:0"), torch.ones(4, device="openreg:1"))


@config.patch({"triton.cudagraph_trees": False})
def test_graphs_without_trees_are_cudas(warnings_of_inductor):
    f, x = recorded(wave), torch.ones(4, device=DEVICE)
    assert [f(x)[0].item() for _ in range(3)] == [3, 3, 3]
    assert "cudagraph_trees=False, which only CUDA" in warnings_of_inductor()


# --- the backend "cudagraphs" -------------------------------------------------------------


def test_dynamos_own_backend_replays_forward_and_backward():
    def gradients(backend):
        torch._dynamo.reset()
        weight = torch.arange(8.0, device=DEVICE).view(2, 4).sin().requires_grad_()
        f = torch.compile(lambda x: (x @ weight).relu() * 2, backend=backend)
        found = []
        for turn in range(5):
            weight.grad = None
            f(torch.full((3, 2), turn + 1.0, device=DEVICE)).sum().backward()
            found.append(weight.grad.tolist())
        return found

    assert gradients("cudagraphs") == gradients("eager")
    assert (counted("recordings"), counted("replays")) == (2, 6)


def test_dynamos_own_backend_tells_what_it_leaves_out(warnings_of_inductor):
    f = torch.compile(lambda x: (x + 1).cpu() * 2, backend="cudagraphs")
    for _ in range(3):
        assert f(torch.ones(2, device=DEVICE)).tolist() == [4.0, 4.0]
    assert counted("recordings") == 0
    assert "skipping cudagraphs due to cpu device" in warnings_of_inductor()
