"""Operators called with `out=`, in place, and for views."""

import pytest
import torch
from comparison import DEVICE, put
from database import (
    arguments,
    examine,
    name_of,
    noncontiguous,
    operators,
    samples,
)
from torch.utils._pytree import tree_leaves

pytestmark = pytest.mark.filterwarnings("ignore")


def tensors(tree):
    leaves = tree_leaves(tree)
    return [x for x in leaves if isinstance(x, torch.Tensor) and has_storage(x)]


def has_storage(tensor):
    return tensor.layout == torch.strided


def content(tensor):
    """All of a tensor's storage, with what lies between its elements."""
    with torch.no_grad():
        whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return whole.set_(tensor.untyped_storage()).clone()


# --- out= ---------------------------------------------------------------------

OUTPUTS = {
    "fitting": torch.zeros_like,
    "strided": lambda t: t.new_zeros(*t.shape, 2)[..., 0],
    "permuted": lambda t: t.new_zeros(t.shape[::-1]).permute([*range(t.dim())][::-1]),
    "empty": lambda t: t.new_empty(0),
    "too large": lambda t: t.new_zeros(3, *t.shape),
    "of wider numbers": lambda t: torch.zeros_like(
        t, dtype=torch.complex128 if t.is_complex() else torch.float64
    ),
    "of integers": lambda t: torch.zeros_like(t, dtype=torch.int64),
    "of bytes": lambda t: torch.zeros_like(t, dtype=torch.uint8),
}


def into(make):
    """A call with outputs that `make` makes of the results; gives the outputs, all
    that is in their storages, and whether they are the tensors they were."""

    def form(op):
        def run(*args, **kwargs):
            result = op.op(*args, **kwargs)
            single = isinstance(result, torch.Tensor)
            outs = [make(t) for t in ([result] if single else result)]
            pointers = [t.data_ptr() for t in outs]
            given = op.op(*args, **kwargs, out=outs[0] if single else tuple(outs))
            kept = [t.data_ptr() == p for t, p in zip(outs, pointers, strict=True)]
            returned = [] if given is None else tree_leaves(given)
            same = [a is b for a, b in zip(returned, outs)]
            return outs, [content(t) for t in outs], kept, same

        return run

    return form


def has_out(op):
    # The database says so of some whose outputs have other names, no storage or are
    # not there at all.
    odd = "_batch_norm_with_update", "equal", "histogramdd", "sparse.sampled_addmm"
    return op.supports_out and op.name not in odd


@pytest.mark.parametrize("op, dtype", operators(has_out))
def test_outputs_are_written_resized_and_refused_as_on_the_cpu(op, dtype, settle):
    verdict = {}
    for kind, make in OUTPUTS.items():
        found = examine(op, dtype, 2, form=into(make), grad=False)
        for direction, differences in found.items():
            told = [f"{kind}, {difference}" for difference in differences]
            verdict.setdefault(direction, []).extend(told)
    settle("out=", name_of(op), dtype, verdict)


def is_pure_python(op):
    return op.name == "lu"  # which copies its results to any tensor


@pytest.mark.parametrize(
    "op, dtype", operators(lambda op: has_out(op) and not is_pure_python(op))
)
def test_outputs_of_another_device_are_refused(op, dtype):
    (sample,) = samples(op, dtype, 1)
    args, kwargs = put(arguments(op, sample), DEVICE)
    result = op.op(*args, **kwargs)
    single = isinstance(result, torch.Tensor)
    out = result.cpu() if single else tuple(t.cpu() for t in result)
    with pytest.raises(RuntimeError, match="[dD]evice"):
        op.op(*args, **kwargs, out=out)


# --- in place -----------------------------------------------------------------


def in_place(op):
    """Changes what is given, or a copy of it if gradients are to come."""

    def run(first, *args, **kwargs):
        leaf = first.requires_grad
        x = first.clone() if leaf else first
        version = x._version
        y = op.inplace_variant(x, *args, **kwargs)
        return y, y is x, x._version - version, [] if leaf else content(x)

    return run


def has_in_place(op):
    return op.inplace_variant is not None


@pytest.mark.parametrize("op, dtype", operators(has_in_place))
def test_operators_work_in_place(op, dtype, settle):
    settle("in place", name_of(op), dtype, examine(op, dtype, 4, form=in_place))


@pytest.mark.parametrize("op, dtype", operators(has_in_place))
def test_nothing_between_the_elements_is_touched(op, dtype, settle):
    verdict = examine(op, dtype, 4, form=in_place, change=noncontiguous, grad=False)
    settle("in place", name_of(op), dtype, verdict)


# --- views --------------------------------------------------------------------


def related(op):
    """What results have to do with arguments: which tensor, storage and base are
    the same, and what becomes of the arguments if a result is changed."""

    def run(*args, **kwargs):
        given = tensors((args, kwargs))
        results = tensors(op.op(*args, **kwargs))
        versions = [x._version for x in given]
        told = []
        for y in results:
            place = y.untyped_storage()._cdata
            told += [
                [y is x for x in given],
                [place == x.untyped_storage()._cdata for x in given],
                [y._base is x for x in given],
                y._is_view(),
            ]
            if any(told[-3]):
                y.zero_()
        told += [x._version - version for x, version in zip(given, versions)]
        return results, given, told

    return run


@pytest.mark.parametrize("op, dtype", operators())
def test_views_share_what_they_share_on_the_cpu(op, dtype, settle):
    settle("views", name_of(op), dtype, examine(op, dtype, 3, form=related, grad=False))


# --- composite kernels ----------------------------------------------------------


def test_a_kernel_that_is_called_by_its_device_works_in_place():
    """PyTorch's composite kernel of it does not ask the dispatcher."""
    x = torch.tensor([1 + 2j, 3 - 1j])
    y = x.to(DEVICE)
    assert y.conj_physical_() is y
    assert y.tolist() == x.conj_physical_().tolist()
