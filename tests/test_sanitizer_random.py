"""Random right programs are not reported. Those that lack one wait are, if two uses of
the same bytes are then in no order."""

import random
from dataclasses import dataclass, field

import pytest
import torch
from device_name import NAME, m
from hypothesis import given
from program_machine import Machine
from sanitizer_zoo import in_one_process
from test_random_programs import examples, program

from torch_openreg import sanitizer

pytestmark = [in_one_process, pytest.mark.filterwarnings("ignore")]

CHECKS = "race,memory,init"


def check_is_silent(steps):
    with sanitizer.check(CHECKS):
        Machine(real=True).run(steps)


@given(program(10))
@examples(60)
def test_right_programs_are_not_reported(steps):
    check_is_silent(steps)


@pytest.mark.slow
@given(program(20))
@examples(2000)
def test_many_right_programs_are_not_reported(steps):
    check_is_silent(steps)


# --- with a wait removed --------------------------------------------------------

STREAMS, TENSORS, PARTS = 3, 3, 4


@dataclass
class Work:
    """Reads a range of one tensor and writes one of another: (tensor, first, end)."""

    stream: int
    reads: tuple
    writes: tuple
    waits: list = field(default_factory=list)  # numbers of earlier works

    def conflicts(self, other):
        pairs = [(self.writes, other.writes), (self.writes, other.reads)]
        return any(
            a[0] == b[0] and a[1] < b[2] and b[1] < a[2]
            for a, b in [*pairs, (self.reads, other.writes)]
        )


def before(works, number):
    """The works that come before one: by its stream, and by the waits."""
    found, to_do = set(), [number]
    while to_do:
        last = to_do.pop()
        own = [i for i in range(last) if works[i].stream == works[last].stream]
        # A wait holds back all later work of its stream.
        held = {wait for i in (*own, last) for wait in works[i].waits}
        new = {*own, *held} - found
        found |= new
        to_do += new
    return found


def unordered(works):
    """Whether two uses of the same bytes are in no order."""
    return any(
        works[i].conflicts(work) and i not in before(works, number)
        for number, work in enumerate(works)
        for i in range(number)
    )


def a_range(chance):
    first = chance.randrange(PARTS)
    return chance.randrange(TENSORS), first, chance.randrange(first, PARTS) + 1


def right_program(chance, length):
    """Works with the waits that they need and no others."""
    works = []
    for number in range(length):
        stream = chance.randrange(STREAMS)
        works.append(Work(stream, a_range(chance), a_range(chance)))
        for i in reversed(range(number)):
            if works[i].conflicts(works[number]) and i not in before(works, number):
                works[number].waits.append(i)
    return works


def run(works):
    """The kinds of what the sanitizer finds."""
    tensors = [torch.ones(PARTS, 8, device=NAME) for _ in range(TENSORS)]
    streams = [m.Stream() for _ in range(STREAMS)]
    m.synchronize()
    sanitizer.enable("race", quiet=True)
    try:
        events = []
        for work in works:
            for wait in work.waits:
                streams[work.stream].wait_event(events[wait])
            with m.stream(streams[work.stream]):
                (source, a, b), (target, c, d) = work.reads, work.writes
                read = tensors[source][a:b].sum()
                tensors[target][c:d].copy_(read.expand(d - c, 8))
            events.append(streams[work.stream].record_event())
        m.synchronize()
    finally:
        sanitizer.disable()
    return {finding.kind for finding in sanitizer.findings()}


def check_removals(seed, length):
    works = right_program(random.Random(seed), length)
    assert run(works) == set()
    removed = 0
    for work in works:
        for wait in list(work.waits):
            work.waits.remove(wait)
            expected = {"race"} if unordered(works) else set()
            assert run(works) == expected, (seed, works)
            work.waits.append(wait)
            removed += bool(expected)
    return removed


def test_a_removed_wait_is_found_if_it_was_needed():
    assert sum(check_removals(seed, 7) for seed in range(12)) > 20


@pytest.mark.slow
def test_many_removed_waits_are_found():
    assert sum(check_removals(seed, 12) for seed in range(200)) > 500
