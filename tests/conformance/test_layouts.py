"""Tensors that are not strided: sparse ones of every layout, and jagged ones."""

import itertools

import pytest
import torch
from comparison import seed
from database import entries, examine, name_of, op_db, samples
from torch.testing._internal.opinfo.definitions.nested import njt_op_db

pytestmark = pytest.mark.filterwarnings("ignore")

LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def sparse_entries():
    for op, layout in itertools.product(op_db, LAYOUTS):
        flag = "sparse" if layout == "sparse_coo" else layout
        if getattr(op, f"supports_{flag}"):
            yield pytest.param(op, layout, id=f"{name_of(op)}-{layout}")


def sparse_samples(op, layout):
    """The database's, or made of its strided ones where it has none of the layout."""
    seed(0)
    make = getattr(op, f"sample_inputs_{layout}_func")
    try:
        yield from make(op, "cpu", torch.float32, requires_grad=True)
    except NotImplementedError:
        for sample in samples(op, torch.float32):
            if fits(sample.input, layout):
                sample.input = as_sparse(sample.input, layout).requires_grad_()
                yield sample


def fits(value, layout):
    if not isinstance(value, torch.Tensor):
        return False
    return value.dim() > 0 if layout == "sparse_coo" else value.dim() == 2


def as_sparse(tensor, layout):
    tensor = tensor.clone()
    tensor[:1] = 0
    block = (1, 1) if layout in ("sparse_bsr", "sparse_bsc") else None
    return tensor.to_sparse(layout=getattr(torch, layout), blocksize=block)


@pytest.mark.parametrize("op, layout", sparse_entries())
def test_operators_on_sparse_tensors_give_what_they_give_on_the_cpu(op, layout, settle):
    given = list(itertools.islice(sparse_samples(op, layout), 4))
    if given:
        verdict = examine(op, torch.float32, given=given)
        settle(f"operators, {layout}", name_of(op), torch.float32, verdict)


def takes_jagged_tensors(op):
    try:
        return bool(samples(op, torch.float32, 1))
    except RuntimeError:  # "does not support NJT"
        return False


@pytest.mark.parametrize("op, dtype", entries(njt_op_db, [torch.float32]))
def test_operators_on_jagged_tensors_give_what_they_give_on_the_cpu(op, dtype, settle):
    if takes_jagged_tensors(op):
        settle("operators, jagged", name_of(op), dtype, examine(op, dtype, 2))
