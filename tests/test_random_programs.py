"""Random programs give the CPU's bits: over views, streams, copies and frees."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import programs as p
import pytest
import torch
from device_name import m
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from program_machine import Machine

# Of odd casts and of fills of expanded tensors; queued work warns elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore")

numbers = st.integers(0, 9)
works = st.builds(p.Work, st.integers(0, p.STREAMS - 1), st.sampled_from(p.Work.ORDERS))
places = st.sampled_from(p.PLACES)
dtypes = st.sampled_from(p.DTYPES)


def kinds(step):
    return st.sampled_from(sorted(step.KINDS))


creations = st.builds(
    p.Create, places, dtypes, st.sampled_from(p.SHAPES), st.integers(1, 7), works
)
steps = st.one_of(
    creations,
    st.builds(p.View, numbers, kinds(p.View), works),
    st.builds(p.Unary, numbers, kinds(p.Unary), works),
    st.builds(p.Binary, numbers, numbers, kinds(p.Binary), works),
    st.builds(p.Change, numbers, numbers, kinds(p.Change), works),
    st.builds(p.Draw, numbers, kinds(p.Draw), works),
    st.builds(p.Move, numbers, places, dtypes, st.booleans(), works),
    st.builds(p.Assign, numbers, numbers, st.booleans(), works),
    st.builds(p.Free, numbers, st.sampled_from(p.Free.HOWS)),
)


def program(chapters):
    """Some tensors to begin with, then anything. A list of hypothesis has some five
    items, so lists of lists make programs long, and they shrink to nothing."""
    first = st.lists(creations, min_size=1, max_size=4)
    rest = st.lists(st.lists(steps, max_size=12), max_size=chapters)
    return st.tuples(first, rest).map(lambda parts: sum(parts[1], parts[0]))


def examples(count):
    """The same programs in every run."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def bits(tensor):
    """The bytes of a tensor, the same ones for every NaN."""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.nan, tensor.double())
    return tensor.numpy().tobytes()


def have_same_bits(ours, theirs):
    """To assert this, not an equality: pytest would tell how two strings of bytes
    differ, which takes hours where the environment has CI."""
    return bits(ours) == bits(theirs)


def assert_same(found, expected):
    tensors, errors = found
    assert errors == expected[1]
    for (ours, strides), (theirs, right) in zip(tensors, expected[0], strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert strides == right
        assert have_same_bits(ours, theirs)


def check(steps):
    allocated = [m.memory_allocated(device) for device in p.DEVICES]
    found = Machine(real=True).run(steps)
    assert_same(found, Machine(real=False).run(steps))
    assert allocated == [m.memory_allocated(d) for d in p.DEVICES]


@given(program(10))
@examples(300)
def test_programs_give_the_cpus_bits(steps):
    check(steps)


@pytest.mark.slow
@given(program(20))
@examples(5000)
def test_many_programs_give_the_cpus_bits(steps):
    check(steps)


# --- programs that are wrong --------------------------------------------------


class WithoutWaits(Machine):
    def depend(self, *arguments):
        pass


class WithoutCareInFrees(Machine):
    def free(self, step):
        if self.slots:
            self.slots.pop(step.target % len(self.slots))


ONE, TWO = (p.Work(stream, "event") for stream in (1, 2))
LARGE = p.SHAPES[-1]
WRONG = [
    (
        WithoutWaits,
        [
            p.Create(0, "float64", LARGE, 1, ONE),
            p.Move(0, "host", "float64", False, ONE),
            p.Change(0, 0, "fill_", ONE),
            p.Unary(0, "clone", TWO),  # of what is not filled yet
            p.Move(2, "host", "float64", False, TWO),
        ],
    ),
    (
        WithoutCareInFrees,
        [
            p.Create(0, "float64", LARGE, 1, ONE),
            p.Unary(0, "clone", TWO),
            p.Free(0, "record_stream"),
            p.Create(0, "float64", LARGE, 3, ONE),  # in the memory that is read
            p.Move(1, "host", "float64", False, ONE),
        ],
    ),
]


# Else it is a matter of luck.
@pytest.mark.skipif(
    os.environ.get("OPENREG_SCHEDULE") != "adversarial", reason="needs the adversary"
)
@pytest.mark.parametrize("machine, steps", WRONG)
def test_the_adversary_finds_what_is_missing(machine, steps):
    check(steps)
    expected = Machine(real=False).run(steps)
    with pytest.raises(AssertionError):
        assert_same(machine(real=True).run(steps), expected)


# --- threads ------------------------------------------------------------------


def check_together(parts):
    """Each part in a thread with streams and a generator of its own."""
    start = threading.Barrier(len(parts))

    def work(index):
        start.wait()
        return Machine(real=True, thread=index).run(parts[index])

    with ThreadPoolExecutor(len(parts)) as pool:
        found = list(pool.map(work, range(len(parts))))
    for index, part in enumerate(parts):
        assert_same(found[index], Machine(real=False, thread=index).run(part))


@given(st.lists(program(6), min_size=2, max_size=3))
@examples(80)
def test_programs_of_several_threads_give_the_cpus_bits(parts):
    check_together(parts)


# `make soak-programs` sets them.
ROUNDS = int(os.environ.get("PROGRAM_ROUNDS", "1500"))
SEED = int(os.environ.get("PROGRAM_SEED", "0"))


@pytest.mark.slow
@seed(SEED)
@given(st.lists(program(12), min_size=2, max_size=4))
@examples(ROUNDS)
def test_many_programs_of_several_threads_give_the_cpus_bits(parts):
    note(f"PROGRAM_SEED={SEED}")
    check_together(parts)


# --- other schedules ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif("OPENREG_SCHEDULE" in os.environ, reason="is such a run itself")
@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_other_schedules_give_the_same(schedule, pytestconfig, run_tests):
    """All of this file. A device that a failing program broke can be used again,
    so that the program can be shrunk."""
    marks = pytestconfig.getoption("-m")
    variables = {"OPENREG_SCHEDULE": schedule, "OPENREG_DEVICE_ASSERT": "raise"}
    run_tests("-m", marks, __file__, timeout=900, **variables)
