"""PyTorch's own database of operators, and how openreg fares with an entry of it."""

import itertools

import pytest
import torch
from comparison import DEVICE, DifferentError, call, compare, seed
from inventory import CLOSE, NO_VALUES, SCHEDULE
from torch.testing._internal import common_methods_invocations
from torch.utils._pytree import tree_leaves

# Those of CUDA's run-time compiler are for CUDA alone.
op_db = [
    op
    for op in common_methods_invocations.op_db
    if not op.name.startswith("jiterator_")
]

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.bool,
)

# Have samples that do not say on which device.
FACTORIES = ("arange", "linspace", "logspace")

# Much is queued only from its second call on, when its results are known.
TURNS = ("",) if SCHEDULE == "auto" else ("", ", again")


def name_of(op):
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


def entries(database=op_db, dtypes=DTYPES):
    """A parameter for each operator in each dtype that it supports on the CPU."""
    for op in database:
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                short = str(dtype).removeprefix("torch.")
                yield pytest.param(op, dtype, id=f"{name_of(op)}-{short}")


def operators(wanted=lambda op: True, database=op_db):
    """A parameter for each operator, with its commonest dtype."""
    for op in database:
        dtypes = op.supported_dtypes("cpu")
        if dtypes and wanted(op):
            order = *DTYPES, *sorted(dtypes, key=str)
            dtype = next(d for d in order if d in dtypes)
            yield pytest.param(op, dtype, id=name_of(op))


def samples(op, dtype, limit=None, requires_grad=False):
    # Not op.sample_inputs(), which looks through the stack for a test of PyTorch's:
    # that takes longer than all the rest.
    seed(0)
    found = op.sample_inputs_func(op, "cpu", dtype, requires_grad)
    return list(itertools.islice(found, limit))


def arguments(op, sample):
    kwargs = sample.kwargs
    if op.name in FACTORIES:
        kwargs = {"device": "cpu", **kwargs}
    return (sample.input, *sample.args), kwargs


def noncontiguous(sample):
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    if any(getattr(x, "layout", torch.strided) != torch.strided for x in leaves):
        return sample
    return sample.noncontiguous()


def plain(op):
    return op.op


def examine(op, dtype, limit=None, *, form=plain, change=None, grad=True, given=None):
    """Runs an entry's samples on the CPU and on openreg, in a form of its call, and
    returns the differences found; see weigh()."""
    grad = (
        grad and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    )
    name = op.name.removeprefix("_refs.")
    how = {"values": name not in NO_VALUES, "close": name in CLOSE}
    if given is None:
        given = samples(op, dtype, limit, grad)
    verdict = {}
    for index, sample in enumerate(given):
        taken = arguments(op, change(sample) if change else sample)
        kind = "expanded" if index % 2 else "random"
        expected = call(form(op), taken, "cpu", kind)
        for turn in TURNS:
            found = call(form(op), taken, DEVICE, kind)
            weigh(verdict, found, expected, f"sample {index}{turn}", how)
    return verdict


def weigh(verdict, found, expected, label, how=None):
    """Adds the differences between two outcomes of a call to a verdict: lists of them
    for "forward" and "backward", where the CPU has a result, and for "errors", where
    it raises."""

    def note(direction, ours, theirs):
        where = "errors" if isinstance(theirs, Exception) else direction
        differences = []
        try:
            compare(ours, theirs, **(how or {}))
        except DifferentError as error:
            differences.append(f"{label}: {error}")
        verdict.setdefault(where, []).extend(differences)
        return differences

    forward = note("forward", found.forward, expected.forward)
    if found.backward is not None and expected.backward is not None:
        note("backward", found.backward, expected.backward)
    elif found.backward is not None or expected.backward is not None:
        # Only one of them has a way back, for the reason just noted.
        verdict.setdefault("backward", []).extend(forward)
