"""What cannot be captured says so, and the next capture is right."""

import pytest
import torch
from torch import nn

from torch_openreg.memory import failing_allocation

m = torch.openreg
DEVICE = "openreg"
FORBIDDEN = "operation not permitted when stream is capturing"
SPOILED = "operation failed due to a previous error during capture"


@pytest.fixture(autouse=True)
def usual_stream():
    """A failed capture leaves its stream current, as on CUDA."""
    yield
    m.set_stream(m.default_stream())


@pytest.fixture
def x():
    made = torch.ones(4, device=DEVICE)
    m.synchronize()
    return made


def assert_all_is_well(x):
    """The stream of captures works, and so does the next capture."""
    m.synchronize()
    assert not m.is_current_stream_capturing()
    graph = m.OpenRegGraph()
    with m.graph(graph):
        y = x * 2 + 1
    graph.replay()
    assert y.tolist() == (x.cpu() * 2 + 1).tolist()


def masked(x):
    x[x > 0] = 2.0


def custom(namespace):
    """Calls an operator that has a CPU kernel only, and is gone afterwards."""

    def call(x):
        with torch.library._scoped_library(namespace, "FRAGMENT") as library:
            library.define("openreg_tests_double(Tensor x) -> Tensor")
            library.impl("openreg_tests_double", lambda x: x * 2, "CPU")
            return getattr(torch.ops, namespace).openreg_tests_double(x)

    return call


WAITING = {
    "custom operator": custom("openreg_tests"),
    "custom operator of aten": custom("aten"),
    "synchronize": lambda x: m.synchronize(),
    "stream synchronize": lambda x: m.current_stream().synchronize(),
    "stream query": lambda x: m.current_stream().query(),
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "index by a mask": lambda x: x[x > 0],
    "assign by a mask": masked,
    "masked select": lambda x: x.masked_select(x > 0),
    "equal": lambda x: torch.equal(x, x + 1),
    "repeat interleave": lambda x: x.repeat_interleave(x.long()),
    "nested": lambda x: m.graph(m.OpenRegGraph()).__enter__(),
}


@pytest.mark.parametrize("name", WAITING)
def test_what_the_host_must_wait_for_invalidates_a_capture(name, x):
    graph = m.OpenRegGraph()
    with (
        pytest.raises(torch.AcceleratorError, match=SPOILED),
        m.graph(graph),
    ):
        with pytest.raises(torch.AcceleratorError, match=FORBIDDEN):
            WAITING[name](x)
        with pytest.raises(torch.AcceleratorError, match=SPOILED):
            x.add_(1)
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert x.tolist() == [1.0] * 4
    assert_all_is_well(x)


@pytest.mark.parametrize(
    "copy", [lambda x: x.cpu(), lambda x: torch.ones(4).to(DEVICE)]
)
def test_copies_of_pageable_memory_are_refused_and_the_capture_goes_on(copy, x):
    graph = m.OpenRegGraph()
    with m.graph(graph):
        with pytest.raises(RuntimeError, match="unless the CPU tensor is pinned"):
            copy(x)
        x.add_(1)
    graph.replay()
    assert x.tolist() == [2.0] * 4


def test_wrong_arguments_are_refused_and_the_capture_goes_on(x):
    graph = m.OpenRegGraph()
    with m.graph(graph):
        with pytest.raises(RuntimeError, match="size of tensor"):
            x + torch.ones(3, device=DEVICE)
        with pytest.raises(RuntimeError, match="normalized_shape"):
            nn.functional.layer_norm(x, (3,))
        with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
            torch.cumprod(x.bool(), 0, dtype=torch.bool)
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(4)
        x.add_(1)
    graph.replay()
    assert x.tolist() == [2.0] * 4


def test_a_stream_that_is_not_joined_invalidates_the_capture(x):
    side = m.Stream()
    with (
        pytest.raises(torch.AcceleratorError, match="unjoined work"),
        m.graph(m.OpenRegGraph()),
    ):
        side.wait_stream(m.current_stream())
        with m.stream(side):
            x.add_(1)
    assert_all_is_well(x)


def test_an_event_of_other_work_cannot_be_waited_for(x):
    event = m.Event()
    event.record()
    with (
        pytest.raises(torch.AcceleratorError, match=SPOILED),
        m.graph(m.OpenRegGraph()),
        pytest.raises(torch.AcceleratorError, match="uncaptured work"),
    ):
        m.current_stream().wait_event(event)
    assert_all_is_well(x)


def test_an_exception_of_the_program_ends_the_capture(x):
    graph = m.OpenRegGraph()
    with pytest.raises(KeyError), m.graph(graph):
        x.add_(1)
        raise KeyError("mine")
    graph.replay()
    assert x.tolist() == [2.0] * 4


def test_memory_for_other_streams_is_not_mapped_meanwhile(x):
    side = m.Stream()
    with (
        pytest.raises(torch.AcceleratorError, match=SPOILED),
        m.graph(m.OpenRegGraph()),
        m.stream(side),
        pytest.raises(torch.AcceleratorError, match=FORBIDDEN),
    ):
        torch.empty(100 << 20, device=DEVICE)
    assert_all_is_well(x)


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_modes_have_names(mode, x):
    graph = m.OpenRegGraph()
    with m.graph(graph, capture_error_mode=mode):
        x.add_(1)
    graph.replay()
    assert x.tolist() == [2.0] * 4


def test_an_unknown_mode_is_refused(x):
    with (
        pytest.raises(RuntimeError, match="Unknown capture error mode"),
        m.graph(m.OpenRegGraph(), capture_error_mode="nosuch"),
    ):
        pass
    m.set_stream(m.default_stream())
    assert_all_is_well(x)


def test_captures_begin_and_end_in_one_stream_that_is_not_the_default(x):
    graph = m.OpenRegGraph()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(torch.AcceleratorError, match="present state"):
        graph.capture_end()
    with m.stream(m.Stream()):
        graph.capture_begin()
        with pytest.raises(torch.AcceleratorError, match="present state"):
            graph.capture_begin()
        with (
            m.stream(m.Stream()),
            pytest.raises(RuntimeError, match="same stream it began on"),
        ):
            graph.capture_end()
        x.add_(1)
        graph.capture_end()
    graph.replay()
    assert x.tolist() == [2.0] * 4


# --- a failure at each node of a step -----------------------------------------------


@pytest.mark.filterwarnings("ignore:The OpenReg Graph is empty")
def test_a_failure_at_any_allocation_of_a_step_leaves_the_next_capture_right():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
    x = torch.randn(4, 8, device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    expected = []
    state = {k: v.clone() for k, v in model.state_dict().items()}
    for _ in range(2):
        expected.append(step().item())
    model.load_state_dict(state)
    optimizer.zero_grad(set_to_none=True)
    m.synchronize()
    allocated = m.memory_allocated()
    failures = 0
    for number in range(1, 200):
        graph = m.OpenRegGraph()
        failure = failing_allocation(number, 0)
        try:
            with m.graph(graph), failure:
                step()
        except torch.OutOfMemoryError:
            failures += 1
        optimizer.zero_grad(set_to_none=True)
        graph.reset()
        del graph
        m.synchronize()
        assert m.memory_allocated() <= allocated + 1024
        if not failure.happened:  # all allocations of the step were made
            break
    assert failures > 5
    graph = m.OpenRegGraph()
    with m.graph(graph):
        loss = step()
    found = []
    for _ in range(2):
        graph.replay()
        found.append(loss.item())
    assert found == expected


@pytest.mark.parametrize("place", range(6))
def test_a_wait_after_any_operator_leaves_the_next_capture_right(place, x):
    operators = [lambda t: t + 1, torch.exp, torch.relu, lambda t: t.sum(0), torch.neg]

    def body(fails):
        y = x
        for i, operator in enumerate(operators):
            if fails and i == place:
                m.synchronize()
            y = operator(y)
        if fails and place == len(operators):
            y.item()
        return y

    with pytest.raises(torch.AcceleratorError), m.graph(m.OpenRegGraph()):
        body(True)
    m.set_stream(m.default_stream())
    graph = m.OpenRegGraph()
    with m.graph(graph):
        y = body(False)
    graph.replay()
    assert y.item() == body(False).item()
