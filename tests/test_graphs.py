"""Captures record, replays run: what torch.openreg and torch.accelerator promise."""

import gc

import pytest
import torch

m = torch.openreg
DEVICE = "openreg"


def captured(function, graph=None, **options):
    """A graph of what a function does, and what it returned."""
    graph = graph or m.OpenRegGraph()
    with m.graph(graph, **options):
        result = function()
    return graph, result


def zeros(n=4):
    return torch.zeros(n, device=DEVICE)


# --- captures and replays -------------------------------------------------------


def test_nothing_runs_before_the_first_replay():
    x = zeros()
    graph, y = captured(lambda: x.add_(1) * 10)
    assert x.tolist() == [0.0] * 4
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([1.0] * 4, [10.0] * 4)
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([2.0] * 4, [20.0] * 4)


def test_a_replay_reads_what_its_inputs_hold_then():
    x = zeros()
    graph, y = captured(lambda: (x * 2 + 1).relu())
    address = y.data_ptr()
    for value in (3.0, -5.0):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [max(2 * value + 1, 0.0)] * 4
        assert y.data_ptr() == address


OPERATORS = {
    "add number": lambda x: x + 1,
    "add of int": lambda x: x + torch.ones_like(x, dtype=torch.int64),
    "argmax": lambda x: x.argmax(1),
    "batch norm": lambda x: torch.nn.functional.batch_norm(
        x, None, None, training=True
    ),
    "bmm": lambda x: torch.bmm(x.view(2, 4, 8), x.view(2, 8, 4)),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "clone": lambda x: x.t().clone(),
    "comparison": lambda x: x > 0,
    "conv": lambda x: torch.nn.functional.conv2d(
        x.view(1, 1, 8, 8), x[:3, :3].view(1, 1, 3, 3)
    ),
    "cumsum": lambda x: x.cumsum(0),
    "div by int tensor": lambda x: x / torch.full_like(x, 2, dtype=torch.int32),
    "double": lambda x: x.double().exp(),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "embedding": lambda x: torch.nn.functional.embedding(x.abs().long() % 8, x),
    "gather": lambda x: x.gather(1, x.long().abs() % 8),
    "gelu": torch.nn.functional.gelu,
    "index": lambda x: x[x[0].long().abs() % 8],
    "kron": lambda x: torch.kron(x, x[:2]),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (8,)),
    "linalg": lambda x: torch.linalg.matrix_norm(x),
    "linear": lambda x: torch.nn.functional.linear(x, x, x[0]),
    "log softmax": lambda x: x.log_softmax(-1),
    "masked fill": lambda x: x.masked_fill(x > 0, 7.0),
    "max of a dim": lambda x: x.max(0)[1],
    "mean": lambda x: x.mean(),
    "median": lambda x: x.median(),
    "pad": lambda x: torch.nn.functional.pad(x[None], (1, 1), mode="reflect"),
    "pool": lambda x: torch.nn.functional.max_pool2d(x[None, None], 2),
    "sdpa": lambda x: torch.nn.functional.scaled_dot_product_attention(
        *[x.view(1, 2, 4, 8)] * 3
    ),
    "scatter": lambda x: x.scatter(1, x.long().abs() % 8, 1.0),
    "softmax of dim 0": lambda x: x.softmax(0),
    "sort": lambda x: x.sort(dim=1, stable=True)[0],
    "std": lambda x: x.std(0),
    "sum": lambda x: x.sum(0),
    "svd values": lambda x: torch.linalg.svdvals(x),
    "topk": lambda x: x.topk(3).values,
    "transpose of a cast": lambda x: x.t()[:, ::2].to(torch.float64) + x[:, :4],
    "triu": lambda x: x.triu(),
    "var mean": lambda x: torch.var_mean(x, 1)[0],
    "where": lambda x: torch.where(x > 0, x, -x),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_captured_without_having_been_called_before(name):
    """In this process the parameter may be the first call of its kind."""
    function = OPERATORS[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(8, 8, device=DEVICE)
    graph, y = captured(lambda: function(x))
    for _ in range(2):
        values = torch.randn(8, 8, generator=generator)
        x.copy_(values)
        graph.replay()
        assert torch.equal(y.cpu(), function(values)), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_in_half_precision_are_replayed_more_than_once(dtype):
    x = torch.ones(4, dtype=dtype, device=DEVICE)
    factor = torch.full((), 3.0, dtype=dtype, device=DEVICE)
    graph, y = captured(lambda: x.mul_(2).mul_(factor) + factor)
    for _ in range(2):
        graph.replay()
    assert (x.tolist(), y.tolist()) == ([36.0] * 4, [39.0] * 4)


def test_out_arguments_are_resized_when_they_are_captured():
    x, out = zeros(), torch.empty(0, device=DEVICE)
    both = torch.empty(0, device=DEVICE, dtype=torch.bool)
    graph, _ = captured(
        lambda: (torch.add(x, 2, out=out), torch.logical_not(x, out=both))
    )
    assert (out.shape, both.shape) == ((4,), (4,))
    graph.replay()
    assert (out.tolist(), both.tolist()) == ([2.0] * 4, [True] * 4)


def test_copies_and_fills_are_captured():
    host = torch.arange(4.0).pin_memory()
    back = torch.zeros(4).pin_memory()
    x, y = zeros(), zeros()

    def step():
        x.copy_(host, non_blocking=True)
        y.copy_(x)
        y[1:].fill_(9)
        x.zero_()
        back.copy_(y, non_blocking=True)

    graph, _ = captured(step)
    for first in (5.0, 6.0):
        host.fill_(first)
        graph.replay()
        m.synchronize()
        assert back.tolist() == [first, 9.0, 9.0, 9.0]
        assert x.tolist() == [0.0] * 4


def test_an_empty_capture_warns_and_replays():
    graph = m.OpenRegGraph()
    with pytest.warns(UserWarning, match="Graph is empty"):
        captured(lambda: None, graph)
    graph.replay()
    m.synchronize()


# --- streams and devices ----------------------------------------------------------


def test_a_replay_runs_in_the_current_stream_and_returns_early(hold):
    x = zeros()
    graph, _ = captured(lambda: x.add_(1))
    side = m.Stream()
    gate = hold(side)
    with m.stream(side):
        graph.replay()
    assert not side.query() and m.default_stream().query()
    gate.open()
    side.synchronize()
    assert x.tolist() == [1.0] * 4


def test_forked_streams_are_joined_in_the_graph():
    side, x, y = m.Stream(), zeros(), zeros()

    def body():
        current = m.current_stream()
        side.wait_stream(current)
        with m.stream(side):
            y.add_(2)
        x.add_(1)
        current.wait_stream(side)
        x.add_(y)

    graph, _ = captured(body)
    graph.replay()
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([8.0] * 4, [4.0] * 4)


def test_a_graph_belongs_to_the_device_on_which_it_was_captured():
    with m.device(1):
        x = torch.zeros(4, device="openreg:1")
        side = m.Stream()
        graph, y = captured(lambda: x + 1, stream=side)
        x.fill_(3)
    graph.replay()  # device 0 is current
    assert y.device.index == 1
    m.synchronize(1)
    assert y.tolist() == [4.0] * 4


def test_a_capture_is_reported():
    x = zeros()
    graph = m.OpenRegGraph()
    assert not m.is_current_stream_capturing()
    with m.graph(graph):
        x.add_(1)
        assert m.is_current_stream_capturing()
        assert m.current_stream().is_capturing()
        assert torch.accelerator.current_stream().is_capturing()
        assert not m.default_stream().is_capturing()
    assert not m.is_current_stream_capturing()


def test_graphs_can_be_captured_into_graphs():
    x = zeros()
    inner, _ = captured(lambda: x.add_(1))
    outer, _ = captured(lambda: (inner.replay(), x.mul_(2), inner.replay()))
    outer.replay()
    assert x.tolist() == [3.0] * 4


# --- objects ------------------------------------------------------------------------


def test_the_accelerators_graph_is_this_one():
    x = zeros()
    graph = torch.accelerator.Graph()
    with m.stream(m.Stream()), graph:
        x.add_(1)
    assert x.tolist() == [0.0] * 4
    graph.replay()
    graph.replay()
    assert x.tolist() == [2.0] * 4
    assert len(graph.pool()) == 2
    graph.reset()


def test_a_kept_graph_is_instantiated_when_it_is_asked_for(tmp_path):
    x = zeros()
    graph = m.OpenRegGraph(keep_graph=True)
    with pytest.raises(RuntimeError, match="until capture_end"):
        graph.raw_openreg_graph()
    captured(lambda: x.add_(1).mul_(2), graph)
    assert graph.raw_openreg_graph()
    with pytest.raises(RuntimeError, match="until instantiate"):
        graph.raw_openreg_graph_exec()
    graph.instantiate()
    assert graph.raw_openreg_graph_exec()
    graph.replay()
    assert x.tolist() == [2.0] * 4
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert "aten::add_" in (tmp_path / "graph.dot").read_text()


def test_a_graph_that_is_not_kept_has_no_raw_handle():
    graph, _ = captured(lambda: zeros().add_(1))
    with pytest.raises(RuntimeError, match="keep_graph=true"):
        graph.raw_openreg_graph()
    assert graph.raw_openreg_graph_exec()
    with pytest.raises(RuntimeError, match="only when keep_graph=true"):
        graph.instantiate()


def test_graph_data_tells_nodes_and_edges():
    side, x = m.Stream(), zeros()
    graph = m.OpenRegGraph(keep_graph=True)

    def body():
        x.add_(1)
        side.wait_stream(m.current_stream())
        with m.stream(side):
            zeros_there = torch.empty_like(x).zero_()
        x.mul_(2)
        m.current_stream().wait_stream(side)
        x.add_(zeros_there)

    captured(body, graph)
    graph.instantiate()
    nodes = graph.get_graph_data()["nodes"]
    assert [n["node_type"] for n in nodes] == ["kernel", "memset", "kernel", "kernel"]
    assert [n["dependencies"] for n in nodes] == [[], [0], [0], [2, 1]]
    assert [n["dependents"] for n in nodes] == [[1, 2], [3], [3], []]


def test_an_external_event_may_be_recorded_first_in_a_capture():
    event = m.Event(external=True)
    graph, _ = captured(event.record)
    assert event.device is not None
    graph.replay()
    event.synchronize()


def test_a_reset_graph_can_be_captured_again():
    x = zeros()
    graph, _ = captured(lambda: x.add_(1))
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        captured(lambda: x.add_(1), graph)
    m.set_stream(m.default_stream())
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    captured(lambda: x.add_(5), graph)
    graph.replay()
    assert x.tolist() == [5.0] * 4


def test_a_dead_input_is_noticed_if_asked_for():
    graph = m.OpenRegGraph()
    inputs = [zeros()]
    captured(lambda: (inputs[0] + 1).mul_(2), graph, check_input_liveness=True)
    graph.replay()
    inputs.clear()
    gc.collect()  # what the capture kept of it is in a cycle
    with pytest.raises(RuntimeError, match="1 dead tensor"):
        graph.replay()
    m.synchronize()
