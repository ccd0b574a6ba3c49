"""Operators of the database, compiled for openreg by Inductor, give what they give
compiled for the CPU: forward and backward, bit by bit."""

import itertools
import os

import pytest
import torch
from database import examine, name_of, operators

pytestmark = pytest.mark.filterwarnings("ignore")

# Each costs seconds of a C++ compiler. OPENREG_COMPILED_PART=2 takes another quarter.
EVERY = 4
PART = int(os.environ.get("OPENREG_COMPILED_PART", "0"))


def compiled(op):
    torch._dynamo.reset()
    return torch.compile(lambda *args, **kwargs: op.op(*args, **kwargs), dynamic=False)


@pytest.mark.slow
@pytest.mark.parametrize("op, dtype", itertools.islice(operators(), PART, None, EVERY))
def test_a_compiled_operator_gives_the_same(op, dtype, settle):
    settle("compiled", name_of(op), dtype, examine(op, dtype, 1, form=compiled))
