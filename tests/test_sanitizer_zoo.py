"""Each bug of the zoo is found where it is; its right twin is not reported."""

import gc

import pytest
import torch.distributed as dist
from device_name import m
from sanitizer_zoo import (
    host,
    in_one_process,
    kernels,
    memory,
    streams,
    training,
    views,
    zoo,
)

from torch_openreg import sanitizer

pytestmark = in_one_process
MODULES = (host, kernels, memory, streams, training, views)
PROGRAMS = [pytest.param(p, id=p.name) for p in zoo.programs]


@pytest.fixture(scope="module", autouse=True)
def group():
    """Of one rank, for the collectives."""
    store = dist.HashStore()
    dist.init_process_group("occl", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def fresh_memory():
    """So that what is freed is what is handed out next."""
    m.synchronize()
    gc.collect()
    m.empty_cache()


def lines(access):
    return [f.line for f in (*access.frames, *access.forward, *access.replayed)]


def test_the_zoo_is_large_enough():
    assert len(zoo.programs) >= 60
    names = [program.name for program in zoo.programs]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bug_is_found_at_its_lines(program):
    with pytest.raises(sanitizer.SanitizerError) as caught, sanitizer.check():
        program.run(ok=False)
    (found,) = caught.value.findings
    assert found.kind == program.kind, str(found)
    for mark, access in (("first", found.earlier), ("then", found.later)):
        if line := program.line(mark):
            assert line in lines(access), str(found)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_right_twin_is_not_reported(program):
    with sanitizer.check():
        program.run(ok=True)
