"""Training steps in graphs give the bits of eager steps."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

m = torch.openreg
DEVICE = "openreg"
STEPS = 20


def warmed_up(step, times=3):
    """As PyTorch's documentation asks for: in a side stream, before the capture."""
    side = m.Stream()
    side.wait_stream(m.current_stream())
    with m.stream(side):
        for _ in range(times):
            step()
    m.current_stream().wait_stream(side)


def batches(count, *shape):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(DEVICE) for _ in range(count)]


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width=16, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout, batch_first=True)
        self.up, self.down = nn.Linear(width, 32), nn.Linear(32, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


def on_device(make):
    torch.manual_seed(0)
    return make().to(DEVICE)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "sgd foreach": lambda p: torch.optim.SGD(p, 0.05, foreach=True),
    "sgd fused": lambda p: torch.optim.SGD(p, 0.05, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, capturable=True),
    "adam foreach": lambda p: torch.optim.Adam(p, 0.01, capturable=True, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, 0.01, capturable=True, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, capturable=True),
}


def train(make, optimizer, in_graph, shape=(4, 8), autocast=False, scaler=None):
    """The losses of some steps, and the parameters after them."""
    model = on_device(make)
    optimizer = optimizer(model.parameters())
    x = torch.zeros(shape, device=DEVICE)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
            loss = (model(x) - x.flip(-1)).float().square().mean()
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    data = batches(STEPS + 4, *shape)
    run = step
    for _ in range(3):
        x.copy_(data.pop())
        warmed_up(step, 1)
    if in_graph:
        x.copy_(data.pop())
        optimizer.zero_grad(set_to_none=True)
        before = [p.detach().clone() for p in model.parameters()]
        graph = m.OpenRegGraph()
        with m.graph(graph):
            loss = step()
        assert all(map(torch.equal, before, model.parameters()))

        def run():
            graph.replay()
            return loss

    else:
        data.pop()
    for batch in data:
        x.copy_(batch)
        losses.append(run().item())
    return losses, [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_steps_in_a_graph_train_as_eager_ones(name):
    eager = train(mlp, OPTIMIZERS[name], in_graph=False)
    graphed = train(mlp, OPTIMIZERS[name], in_graph=True)
    assert graphed[0] == eager[0]
    assert all(map(torch.equal, graphed[1], eager[1]))
    assert len(set(eager[0])) == STEPS


def test_a_whole_amp_step_with_a_scaler_trains_as_eager_ones():
    results = [
        train(
            Block,
            OPTIMIZERS["adamw fused"],
            in_graph,
            shape=(2, 4, 16),
            autocast=True,
            scaler=torch.amp.GradScaler(DEVICE, init_scale=1024.0),
        )
        for in_graph in (False, True)
    ]
    assert results[0][0] == results[1][0]
    assert all(map(torch.equal, results[0][1], results[1][1]))


def test_a_scaler_skips_a_replayed_step_with_an_infinite_gradient():
    parameter = torch.ones(4, device=DEVICE, requires_grad=True)
    optimizer = torch.optim.Adam([parameter], 0.1, capturable=True, fused=True)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=4.0)
    factor = torch.ones(4, device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    warmed_up(step)
    graph = m.OpenRegGraph()
    with m.graph(graph):
        step()
    before, scale = parameter.tolist(), scaler.get_scale()
    factor.fill_(float("inf"))
    graph.replay()
    assert (parameter.tolist(), scaler.get_scale()) == (before, scale / 2)
    factor.fill_(1)
    graph.replay()
    assert parameter.tolist() != before


def test_dropout_in_a_graph_draws_as_eager_dropout_does():
    results = []
    for in_graph in (False, True):
        torch.manual_seed(3)
        make = lambda: nn.Sequential(mlp(), nn.Dropout(0.5))  # noqa: E731
        results.append(train(make, OPTIMIZERS["sgd"], in_graph))
    assert results[0][0] == results[1][0]


def test_inference_mode_is_captured():
    model, x = on_device(mlp), torch.zeros(4, 8, device=DEVICE)
    with torch.inference_mode():
        graph = m.OpenRegGraph()
        with m.graph(graph):
            y = model(x)
        x.copy_(batches(1, 4, 8)[0])
        graph.replay()
        assert torch.equal(y, model(x))


# --- make_graphed_callables -----------------------------------------------------------


def losses_with(model, steps=STEPS, autocast=False):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    found = []
    for batch in batches(steps, 2, 4, 16):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(
            DEVICE, torch.bfloat16, enabled=autocast, cache_enabled=False
        ):
            loss = (model(batch) - batch.flip(-1)).float().square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


# What autograd accumulates was made in the stream of the capture.
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("autocast", [False, True])
def test_a_graphed_transformer_block_trains_as_the_block_does(autocast):
    model = on_device(Block)
    graphed = copy.deepcopy(model)
    sample = torch.randn(2, 4, 16, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast, cache_enabled=False):
        graphed = m.make_graphed_callables(graphed, (sample,))
    assert losses_with(graphed, autocast=autocast) == losses_with(
        model, autocast=autocast
    )


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_several_callables_share_a_pool_and_run_in_order():
    parts = [on_device(lambda: nn.Linear(8, 8)) for _ in range(3)]
    plain = nn.Sequential(*map(copy.deepcopy, parts))
    samples = tuple(
        (torch.randn(4, 8, device=DEVICE, requires_grad=True),) for _ in parts
    )
    graphed = nn.Sequential(*m.make_graphed_callables(tuple(parts), samples))
    for batch in batches(3, 4, 8):
        results = []
        for model in (plain, graphed):
            model.zero_grad(set_to_none=True)
            x = batch.clone().requires_grad_()
            model(x).square().sum().backward()
            results.append([x.grad, *(p.grad for p in model.parameters())])
        assert all(map(torch.equal, *results))


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_functions_with_nested_outputs_are_graphed():
    def function(x, y):
        return {"sum": x + y, "both": (x * y, x.detach() + 1)}

    x, y = (torch.randn(3, device=DEVICE, requires_grad=True) for _ in range(2))
    graphed = m.make_graphed_callables(function, (x, y))
    a, b = (torch.randn(3, device=DEVICE, requires_grad=True) for _ in range(2))
    found, expected = graphed(a, b), function(a, b)
    assert torch.equal(found["sum"], expected["sum"])
    assert torch.equal(found["both"][1], expected["both"][1])
    (found["both"][0]).sum().backward()
    assert torch.equal(a.grad, b)


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_unused_inputs_must_be_allowed():
    x, y = (torch.randn(3, device=DEVICE, requires_grad=True) for _ in range(2))

    def function(x, y):
        return x * 2

    with pytest.raises(RuntimeError, match="not have been used"):
        m.make_graphed_callables(function, (x, y))
    graphed = m.make_graphed_callables(function, (x, y), allow_unused_input=True)
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and y.grad is None


def test_a_module_that_stops_training_runs_as_it_was():
    model = on_device(lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)))
    graphed = m.make_graphed_callables(model, (torch.randn(4, 8, device=DEVICE),))
    assert graphed is model
    graphed.eval()
    x = batches(1, 4, 8)[0]
    assert torch.equal(graphed(x), model[0](x))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda model: model.register_forward_hook(print), "must not have hooks"),
        (lambda model: model.running_mean.requires_grad_(), "only parameters may"),
    ],
)
def test_modules_that_cannot_be_graphed_are_refused(spoil, text):
    model = on_device(lambda: nn.BatchNorm1d(8))
    spoil(model)
    with pytest.raises(AssertionError, match=text):
        m.make_graphed_callables(model, (torch.randn(4, 8, device=DEVICE),))


def test_arguments_are_tensors_and_autocast_keeps_no_cache():
    with pytest.raises(AssertionError, match="only Tensors"):
        m.make_graphed_callables(lambda x: x, (3,))
    with (
        torch.autocast(DEVICE, torch.bfloat16),
        pytest.raises(RuntimeError, match="cache_enabled=False"),
    ):
        m.make_graphed_callables(on_device(mlp), (torch.zeros(4, 8, device=DEVICE),))
