"""Operators under the transforms of torch.func, and on wrapped tensors."""

import pytest
import torch
from database import examine, name_of, operators
from torch.func import functionalize, jvp, vmap
from torch.utils._pytree import tree_map_only

pytestmark = pytest.mark.filterwarnings("ignore")


def takes_one(transform):
    """A form of an operator's call that changes what happens to its first argument,
    if that is a strided tensor."""

    def form(op):
        def run(first, *args, **kwargs):
            if not isinstance(first, torch.Tensor) or first.layout != torch.strided:
                return op.op(first, *args, **kwargs)
            return transform(lambda x: op.op(x, *args, **kwargs), first)

        return run

    return form


def wrapped(op):
    def run(*args, **kwargs):
        args, kwargs = tree_map_only(torch.Tensor, Wrapper, (args, kwargs))
        results = op.op(*args, **kwargs)
        return tree_map_only(Wrapper, lambda x: x.inner, results)

    return run


class Wrapper(torch.Tensor):
    """Has a tensor inside, on which all operators are called."""

    @staticmethod
    def __new__(cls, inner):
        strided = inner.layout == torch.strided
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride() if strided else None,
            storage_offset=inner.storage_offset() if strided else 0,
            dtype=inner.dtype,
            layout=inner.layout,
            device=inner.device,
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(Wrapper, lambda x: x.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapper, function(*args, **kwargs))


FORMS = {
    "vmap": takes_one(lambda f, x: vmap(f, randomness="same")(torch.stack([x, x]))),
    "jvp": takes_one(lambda f, x: jvp(f, (x,), (torch.ones_like(x),))),
    "functionalize": takes_one(lambda f, x: functionalize(f)(x)),
    "wrapped": wrapped,
}


@pytest.mark.parametrize("op, dtype", operators())
@pytest.mark.parametrize("name", FORMS)
def test_operators_give_what_they_give_on_the_cpu(name, op, dtype, settle):
    verdict = examine(op, dtype, 2, form=FORMS[name], grad=False)
    settle(name, name_of(op), dtype, verdict)
