"""Operators that write into tensors of every layout, with `out=` and in place.

The operators are the dispatcher's, as the database has few samples of this kind: each
overload that writes to an argument is called with tensors of the layout, with dense
ones, and with every mixture of both. A call that the CPU refuses says nothing, nor one
that leaves a malformed tensor there. After any other call all arguments are compared,
those that it writes and those that it reads.
"""

import functools
import itertools
from dataclasses import dataclass
from typing import Callable

import pytest
import torch
from comparison import DEVICE, DifferentError, check, compare, parts, put, seed
from database import TURNS
from inventory import NO_VALUES, NotInTheInventoryError
from layouts import DENSE, NESTED, QUANTIZED, SPARSE
from torch.nested._internal.ops import JAGGED_OPS_TABLE
from torch.utils._pytree import tree_leaves

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass(frozen=True)
class Layout:
    make: Callable  # of a dense tensor
    key: str  # the dispatcher's name for where its kernels are
    fewest: int  # of the calls below that the CPU does not refuse


def uncoalesced(x):
    """Each element is there twice."""
    places, values = x.nonzero().t(), x[x != 0]
    return torch.sparse_coo_tensor(places.repeat(1, 2), values.repeat(2), x.shape)


LAYOUTS = {
    "coo": Layout(SPARSE["coo"], "SparseCPU", 400),
    "coo, hybrid": Layout(lambda x: x.to_sparse(1), "SparseCPU", 370),
    "coo, uncoalesced": Layout(uncoalesced, "SparseCPU", 360),
    "csr": Layout(SPARSE["csr"], "SparseCsrCPU", 280),
    "csc": Layout(SPARSE["csc"], "SparseCsrCPU", 180),
    "bsr": Layout(SPARSE["bsr"], "SparseCsrCPU", 130),
    "bsc": Layout(SPARSE["bsc"], "SparseCsrCPU", 125),
    "per tensor": Layout(QUANTIZED["per tensor"], "QuantizedCPU", 170),
    "per channel": Layout(QUANTIZED["per channel"], "QuantizedCPU", 90),
    "float zero points": Layout(QUANTIZED["float zero points"], "QuantizedCPU", 4),
    "nested": Layout(NESTED["nested"], "NestedTensorCPU", 25),
    # A subclass: its operators are written in Python, over strided ones.
    "jagged": Layout(NESTED["jagged"], "CPU", 100),
}

# --- arguments ----------------------------------------------------------------

# What an output holds: other numbers at other places, or none at all.
BEFORE = {"full": DENSE.t(), "zeros": torch.zeros(4, 4)}
MOST_TENSORS = 4  # of a call; the number of mixtures is two to the power of it

# Arguments that are no tensors, by type and name, else by type.
KNOWN = {
    "int dim": 0,
    "int sparse_dim": 2,
    "int dense_dim": 0,
    "int dtype": torch.float32,
    "List[int] size": [4, 4],
    "List[int] dim": [0],
    "Device": torch.device("cpu"),
    "bool": False,
    "float": 0.5,
    "int": 1,
    "number": 2,
}


def is_written(parameter):
    return parameter.alias_info is not None and parameter.alias_info.is_write


def is_needed(parameter):
    return not parameter.has_default_value()


def is_tensor(parameter):
    return str(parameter.type) in ("Tensor", "List[Tensor]")


def is_optional(parameter):
    return str(parameter.type).startswith("Optional")


def tensors(make, numbers, parameter):
    if parameter.name == "index":
        return torch.tensor([2, 0])
    if str(parameter.type) == "Tensor":
        return make(numbers)
    return [make(numbers), make(numbers + 1)]


def plain(parameter):
    """None if it is optional, or not known."""
    named = f"{parameter.type} {parameter.name}"
    return KNOWN.get(named, KNOWN.get(str(parameter.type)))


def can_be_given(parameter):
    known = is_tensor(parameter) or plain(parameter) is not None
    return known or is_optional(parameter)


# --- overloads ----------------------------------------------------------------


class Overload:
    """A schema of the dispatcher that writes to an argument."""

    def __init__(self, schema):
        self.needed = list(filter(is_needed, schema.arguments))
        self.tensors = list(filter(is_tensor, self.needed))
        self.has_out = any(is_written(p) and p.kwarg_only for p in schema.arguments)
        self.packet = schema.name.removeprefix("aten::")
        self.name = f"{self.packet}.{schema.overload_name}".rstrip(".")
        self.run = getattr(
            getattr(torch.ops.aten, self.packet), schema.overload_name or "default"
        )

    def is_for(self, layout):
        if layout == "jagged":
            pointwise = torch.Tag.pointwise in self.run.tags
            return pointwise or self.run in JAGGED_OPS_TABLE
        return torch._C._dispatch_has_computed_kernel_for_dispatch_key(
            f"aten::{self.name}", LAYOUTS[layout].key
        )

    def arguments(self, makers, before):
        """Positional and named ones. Each tensor has other numbers."""
        makers, args, kwargs = iter(makers), [], {}
        for position, parameter in enumerate(self.needed, 1):
            if is_tensor(parameter):
                numbers = before if is_written(parameter) else DENSE
                value = tensors(next(makers), numbers * position, parameter)
            else:
                value = plain(parameter)
            if parameter.kwarg_only:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs

    def calls(self, make):
        """The arguments of each mixture, and what to call it."""
        dense = torch.clone
        befores = BEFORE if self.has_out else {"full": BEFORE["full"]}
        for makers in itertools.product([make, dense], repeat=len(self.tensors)):
            if make in makers:
                kinds = ", ".join("dense" if m is dense else "layout" for m in makers)
                for name, before in befores.items():
                    yield self.arguments(makers, before), f"({kinds}), {name}"

    def __call__(self, arguments, device):
        """All arguments after the call, and which results are such arguments."""
        args, kwargs = put(arguments, device)
        seed(3)
        results = tree_leaves(self.run(*args, **kwargs))
        given = tree_leaves((args, kwargs))
        return given, [any(r is x for x in given) for r in results]


# The dimension whose indices are compressed, and whether values come in blocks.
COMPRESSED = {
    torch.sparse_csr: (0, False),
    torch.sparse_csc: (1, False),
    torch.sparse_bsr: (0, True),
    torch.sparse_bsc: (1, True),
}
# What these leave is not defined for some layout.
UNDEFINED = {
    *NO_VALUES,
    *("_empty_affine_quantized", "_resize_output_", "empty_quantized", "new_full"),
    *("new_ones", "resize", "resize_", "resize_as_"),
}
# These end the process for some layout, on the CPU already.
FATAL = {
    *("_batch_norm_no_update", "_foreach_copy", "_neg_view_copy", "copy"),
    *("view_copy",),
}


@functools.cache
def overloads():
    # TorchScript has operators that the dispatcher does not have.
    known = set(torch._C._dispatch_get_all_op_names())
    schemas = [
        s
        for s in torch._C._jit_get_all_schemas()
        if s.name.startswith("aten::")
        and f"{s.name}.{s.overload_name}".rstrip(".") in known
        and any(map(is_written, s.arguments))
        and all(map(can_be_given, filter(is_needed, s.arguments)))
    ]
    return [
        overload
        for overload in map(Overload, schemas)
        if overload.packet not in UNDEFINED | FATAL
        and 0 < len(overload.tensors) <= MOST_TENSORS
    ]


# --- the test -----------------------------------------------------------------


def is_well_formed(value):
    """Whether a compressed tensor has the indices and blocks that it should have."""
    if getattr(value, "layout", None) not in COMPRESSED:
        return True
    plain, compressed, values, shape = parts(value)
    dim, has_blocks = COMPRESSED[value.layout]
    if values.dim() != (3 if has_blocks else 1):
        return False
    block = values.shape[1 + dim] if has_blocks else 1
    ends = compressed[-1].item(), len(values), (len(compressed) - 1) * block
    return ends == (len(plain), len(plain), shape[dim])


def compare_calls(found, expected):
    compare(found[0], expected[0])
    # The CPU may return something else where the schema promises the argument.
    for ours, theirs in zip(found[1], expected[1], strict=True):
        check("result is an argument", ours or not theirs, True)


def examine(overload, make):
    """How many calls the CPU does not refuse, and the differences found."""
    accepted, differences = 0, []
    for arguments, label in overload.calls(make):
        try:
            expected = overload(arguments, "cpu")
        except Exception:
            continue
        if not all(map(is_well_formed, expected[0])):
            continue
        accepted += 1
        for turn in TURNS:
            try:
                compare_calls(overload(arguments, DEVICE), expected)
            except DifferentError as error:
                differences.append(f"{label}{turn}: {error}")
            except Exception as error:
                differences.append(f"{label}{turn}: {error!r}")
    return accepted, differences


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_written_is_what_the_cpu_writes(layout, settle):
    found, unexplained = 0, []
    for overload in overloads():
        if not overload.is_for(layout):
            continue
        accepted, differences = examine(overload, LAYOUTS[layout].make)
        if not accepted:
            continue
        found += accepted
        form = "out=" if overload.has_out else "in place"
        try:
            verdict = {"forward": differences}
            settle(f"{form}, {layout}", overload.name, torch.float32, verdict)
        except NotInTheInventoryError as error:
            unexplained.append(f"{overload.name}: {error}")
    if unexplained:
        pytest.fail("\n".join(unexplained), pytrace=False)
    assert found >= LAYOUTS[layout].fewest
