"""Graphs: what captures and replays promise, and what spoils a capture."""

import time

import misuse_graph
import torch
from api_cases import members
from misuse import described, quiet
from observer import Graph, case
from torch import nn

MS = int(1.98e6)  # cycles of _sleep()


def captured(o, function, **options):
    graph = Graph()
    with o.m.graph(graph, **options):
        result = function()
    return graph, result


def tensors(*given):
    return [described(tensor) for tensor in given]


@case("api", "class.Graph")
def _(o):
    yield from members(Graph())


@case("streams", "graph_replay")
def _(o):
    x = o.zeros()
    g, y = captured(o, lambda: x.add_(1) * 10)
    yield "nothing ran at capture", lambda: described(x)
    g.replay()
    yield "first replay", lambda: tensors(x, y)
    g.replay(), g.replay()
    yield "two more", lambda: tensors(x, y)
    x.fill_(100)
    g.replay()
    yield "new input in place", lambda: described(y)
    address = y.data_ptr()
    g.replay()
    yield "output stays in place", lambda: y.data_ptr() == address


@case("streams", "graph_is_asynchronous")
def _(o):
    x = o.zeros()

    def body():
        o.m._sleep(300 * MS)
        x.add_(1)

    def replay():
        start = time.monotonic()
        g.replay()
        return time.monotonic() - start < 0.15

    g, _ = captured(o, body)
    yield "replay returns early", replay
    yield "still running", lambda: not o.m.current_stream().query()
    yield "value after synchronize", lambda: (o.sync(), x[0].item())[1]
    side = o.m.Stream()
    o.on(side, g.replay)
    yield (
        "runs on the stream that is current",
        lambda: [not side.query(), o.m.default_stream().query()],
    )


@case("streams", "graph_context")
def _(o):
    x, g, seen = o.zeros(), Graph(), {}
    yield "before", o.m.is_current_stream_capturing
    with o.m.graph(g):
        seen["capturing"] = o.m.is_current_stream_capturing()
        seen["default"] = o.m.current_stream() == o.m.default_stream()
        x.add_(1)
    yield "inside", lambda: seen["capturing"]
    yield "on the default stream inside", lambda: seen["default"]
    yield "after", o.m.is_current_stream_capturing
    yield "pool is a tuple of two", lambda: [type(g.pool()).__name__, len(g.pool())]
    handle = o.m.graph_pool_handle()
    yield "handle", lambda: [type(handle).__name__, len(handle)]
    side, other = o.m.Stream(), Graph()
    with o.m.graph(other, stream=side):
        seen["own"] = o.m.current_stream() == side
    yield "given stream is used", lambda: seen["own"]


@case("streams", "graph_random_numbers")
def _(o):
    o.m.manual_seed(5)
    x = o.zeros()
    torch.rand(4, device=o.device)
    g, _ = captured(o, lambda: x.copy_(torch.rand(4, device=o.device)))

    def draw():
        o.m.manual_seed(5)
        for _ in range(3):
            g.replay()
            yield x.tolist()

    a, b = list(draw()), list(draw())
    yield "replays differ", lambda: a[0] != a[1] and a[1] != a[2]
    yield "seed repeats them", lambda: a == b
    o.m.manual_seed(5)
    eager = [torch.rand(4, device=o.device).tolist() for _ in range(3)]
    yield "same as eager draws", lambda: a == eager
    o.m.manual_seed(5)
    g.replay()
    offset = o.m.default_generators[0].get_offset()
    yield "offset after a replay", lambda: offset


@case("streams", "graph_shared_pool")
def _(o):
    x = torch.ones(1 << 18, device=o.device)
    x.add_(1), o.sync()
    g1, y1 = captured(o, lambda: x * 2)
    before = o.m.memory_reserved()
    g2, y2 = captured(o, lambda: x * 3, pool=g1.pool())
    after = o.m.memory_reserved()
    yield "second capture takes no new segment", lambda: after - before
    addresses = y1.data_ptr(), y2.data_ptr()
    yield "outputs apart while both live", lambda: addresses[0] != addresses[1]
    g1.replay(), g2.replay()
    values = [y1[0].item(), y2[0].item()]
    yield "values", lambda: values
    del y2
    g3, y3 = captured(o, lambda: x * 4, pool=g1.pool())
    yield "memory of a dropped output reused", lambda: y3.data_ptr() == addresses[1]
    g3.replay(), g2.replay()
    yield "later replay overwrites it", lambda: y3[0].item()


@case("streams", "graph_fork_join")
def _(o):
    side, x, y = o.m.Stream(), o.zeros(), o.zeros()

    def body():
        current = o.m.current_stream()
        side.wait_stream(current)
        o.on(side, lambda: y.add_(2))
        x.add_(1)
        current.wait_stream(side)
        x.add_(y)

    g, _ = captured(o, body)
    g.replay(), g.replay()
    yield "values", lambda: tensors(x, y)


@case("streams", "graph_training")
def _(o):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(o.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, t = torch.ones(4, 8, device=o.device), torch.ones(4, 1, device=o.device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = ((model(x) - t) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    side = o.m.Stream()
    side.wait_stream(o.m.current_stream())
    for _ in range(3):
        o.on(side, step)
    o.m.current_stream().wait_stream(side)
    before = step().item()
    optimizer.zero_grad(set_to_none=True)
    g, loss = captured(o, step)
    for _ in range(20):
        g.replay()
    yield "loss falls under replay", lambda: loss.item() < before


@case("streams", "graphed_callables")
def _(o):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(o.device)
    x = torch.randn(4, 8, device=o.device, requires_grad=True)
    expected = model(x).detach().clone()
    sample = torch.randn(4, 8, device=o.device, requires_grad=True)
    got = o.m.make_graphed_callables(model, (sample,))(x)
    yield "forward equal", lambda: torch.allclose(got, expected, atol=1e-5)
    got.sum().backward()
    grads = [p.grad is not None for p in model.parameters()]
    yield "grads there", lambda: [x.grad is not None, all(grads)]


@case("streams", "event_in_graph")
def _(o):
    event, x = o.m.Event(enable_timing=True), o.zeros()

    def body():
        x.add_(1)
        event.record()
        x.add_(1)

    g, _ = captured(o, body)
    g.replay(), o.sync()
    yield "query of an event recorded in a capture", event.query
    yield "elapsed", lambda: event.elapsed_time(event)
    yield "external", lambda: type(o.m.Event(external=True)).__name__


@case("misuse", "graph", apart=True)
def _(o):
    for name, run in misuse_graph.CASES.items():
        yield name, lambda run=run: quiet(o.m.init) or run()
