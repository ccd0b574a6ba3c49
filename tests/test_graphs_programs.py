"""Random programs, captured and replayed twice, give the CPU's bits of two runs."""

import os

import programs as p
import pytest
from device_name import NAME, m
from hypothesis import given
from hypothesis import strategies as st
from program_machine import Machine
from test_random_programs import bits, dtypes, examples, kinds, numbers

pytestmark = pytest.mark.filterwarnings("ignore")

Graph = getattr(m, "OpenRegGraph", None) or m.CUDAGraph
works = st.builds(p.Work, st.integers(0, p.STREAMS - 1), st.sampled_from(["event"]))
creations = st.builds(
    p.Create, st.just(0), dtypes, st.sampled_from(p.SHAPES), st.integers(1, 7), works
)
# All but what the host must wait for.
steps = st.one_of(
    st.builds(p.View, numbers, kinds(p.View), works),
    st.builds(p.Unary, numbers, kinds(p.Unary).filter(lambda k: k != "nonzero"), works),
    st.builds(p.Binary, numbers, numbers, kinds(p.Binary), works),
    st.builds(p.Change, numbers, numbers, kinds(p.Change), works),
    st.builds(p.Draw, numbers, kinds(p.Draw), works),
    st.builds(p.Move, numbers, st.just(0), dtypes, st.just(True), works),
    st.builds(p.Assign, numbers, numbers, st.just(True), works),
    st.builds(p.Free, numbers, st.sampled_from(p.Free.HOWS)),
)
bodies = st.lists(st.lists(steps, max_size=8), max_size=5).map(lambda c: sum(c, []))


class Recorder(Machine):
    """Runs the steps of a program in streams of one capture."""

    def __init__(self):
        super().__init__(real=True)
        self.graph = Graph()
        self.streams = [m.Stream(0) for _ in range(p.STREAMS)]
        for device in p.DEVICES[1:]:
            del self.generators[device]
        for generator in self.generators.values():
            self.graph.register_generator_state(generator)

    def stream(self, device, work):
        return self.streams[work.stream % p.STREAMS]

    def record(self, steps):
        m.synchronize()
        for slot in self.slots:
            slot.memory.home = self.streams[0]
            slot.memory.writes, slot.memory.reads = {}, {}
        main, *others = self.streams
        with m.graph(self.graph, stream=main):
            for other in others:
                other.wait_stream(main)
            self.take(steps)
            for other in others:
                main.wait_stream(other)


def on_cpu(creations, body):
    """What two runs of a program leave, and the errors of one."""
    machine = Machine(real=False)
    machine.run(creations)
    first = list(machine.slots)
    for _ in range(2):
        machine.slots, machine.errors = list(first), []
        machine.take(body)
    return first, machine.slots, machine.errors


def check(creations, body):
    recorder = Recorder()
    recorder.run(creations)
    first = list(recorder.slots)
    recorder.record(body)
    for _ in range(2):
        recorder.graph.replay()
    m.synchronize()
    for_all, left, errors = on_cpu(creations, body)
    assert recorder.errors == errors
    ours = [*first, *recorder.slots]
    for mine, theirs in zip(ours, [*for_all, *left], strict=True):
        assert mine.tensor.shape == theirs.tensor.shape
        # To assert this, not an equality: see test_random_programs.py.
        same = bits(mine.tensor.cpu()) == bits(theirs.tensor)
        assert same


@given(st.lists(creations, min_size=1, max_size=4), bodies)
@examples(120)
def test_captured_programs_give_the_bits_of_the_cpus_two_runs(creations, body):
    check(creations, body)


@pytest.mark.slow
@given(st.lists(creations, min_size=1, max_size=4), bodies)
@examples(2000)
def test_many_captured_programs_give_the_bits_of_the_cpus_two_runs(creations, body):
    check(creations, body)


# All that are written for the name of this run.
GRAPHS = [
    os.path.join(os.path.dirname(__file__), f"test_graphs{name}.py")
    for name in ("_programs", "", "_errors", "_memory", "_random", "_training")
][: 1 if NAME == "cuda" else None]


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("OPENREG_EXECUTOR") == "process" or "OPENREG_SCHEDULE" in os.environ,
    reason="is such a run itself",
)
@pytest.mark.parametrize(
    "variables",
    [
        {"OPENREG_SCHEDULE": "async"},
        {"OPENREG_SCHEDULE": "adversarial"},
        {"OPENREG_EXECUTOR": "process"},
        pytest.param(
            {"OPENREG_EXECUTOR": "process", "OPENREG_SCHEDULE": "adversarial"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda variables: "_".join(variables.values()),
)
def test_graphs_are_the_same_in_other_runs(variables, run_tests):
    run_tests(*GRAPHS, timeout=900, **variables)
