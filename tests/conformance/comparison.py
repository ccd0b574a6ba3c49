"""Runs a call on a device, and tells how two devices differ in what it gave."""

import re
from dataclasses import dataclass, field

import torch
from device_name import NAME
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device(NAME, 0)


# --- arguments ----------------------------------------------------------------


def put(arguments, device):
    """The same arguments on a device: tensors have the same numbers in storages of
    the same layout, and those that share one on the CPU share one there."""
    storages = {}

    def move(value):
        if isinstance(value, str | torch.device) and str(value) == "cpu":
            return torch.device(device)
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            return value
        if value.layout != torch.strided or value.is_quantized or value.is_nested:
            moved = value.detach().clone().to(device)
        else:
            moved = alike(value, storages, device)
        return moved.requires_grad_(value.requires_grad)

    return tree_map(move, arguments)


def alike(tensor, storages, device):
    storage = tensor.untyped_storage()
    if storage._cdata not in storages:
        content = torch.empty(0, dtype=torch.uint8).set_(storage)
        storages[storage._cdata] = content.clone().to(device).untyped_storage()
    moved = torch.empty(0, dtype=tensor.dtype, device=device)
    moved.set_(
        storages[storage._cdata],
        tensor.storage_offset(),
        tensor.size(),
        tensor.stride(),
    )
    moved = torch._neg_view(moved) if tensor.is_neg() else moved
    return torch.conj(moved) if tensor.is_conj() else moved


# --- calls --------------------------------------------------------------------


def seed(number):
    # torch.manual_seed() also keeps the call and its stack for each kind of device
    # that is not there.
    torch.default_generator.manual_seed(number)
    torch.get_device_module(DEVICE).manual_seed(number)


@dataclass
class Outcome:
    """What a call gave: the leaves of its result, or an exception; the gradients of
    its arguments, or an exception, or nothing if there is no way back."""

    forward: list | Exception = field(default_factory=list)
    backward: list | Exception | None = None


def call(function, arguments, device, cotangents="random"):
    args, kwargs = put(arguments, device)
    seed(3)
    try:
        outputs = tree_leaves(function(*args, **kwargs))
    except Exception as error:
        return Outcome(error)
    inputs = [x for x in tree_leaves((args, kwargs)) if tracks(x)]
    ends = [y for y in outputs if tracks(y)]
    if not inputs or not ends:
        return Outcome(outputs)
    seed(4)
    try:
        pull = [cotangent(y, cotangents, device) for y in ends]
        return Outcome(
            outputs,
            list(torch.autograd.grad(ends, inputs, pull, allow_unused=True)),
        )
    except Exception as error:
        return Outcome(outputs, error)


def tracks(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def cotangent(output, kind, device):
    """What backward starts with: random numbers, or an expanded one as from sum();
    if it cannot be strided, the output itself."""
    if output.layout != torch.strided or output.is_nested:
        return output.detach().clone()
    if kind == "expanded":
        return torch.ones((), dtype=output.dtype, device=device).expand(output.shape)
    return torch.randn(output.shape, dtype=output.dtype).to(device)


# --- differences --------------------------------------------------------------


class DifferentError(AssertionError):
    pass


def check(what, found, expected):
    if found != expected:
        raise DifferentError(f"{what}: {found} instead of {expected}")


def compare(found, expected, values=True, close=False):
    """Raises DifferentError unless openreg gave what the CPU gave, to the bit, or
    close to it, or whatever the values are."""
    if isinstance(expected, Exception) or isinstance(found, Exception):
        check("error", words(found), words(expected))
    elif isinstance(expected, list):
        check("number of results", len(found), len(expected))
        for ours, theirs in zip(found, expected, strict=True):
            compare(ours, theirs, values, close)
    elif isinstance(expected, torch.Tensor):
        compare_tensors(found, expected, values, close)
    else:
        check("type", type(found), type(expected))
        if not (found != found and expected != expected):
            check("result", text(found), text(expected))


def words(outcome):
    if isinstance(outcome, Exception):
        return f"{type(outcome).__name__}: {text(outcome)}"
    return "no error"


def text(value):
    """The words, without what goes with the device: its name, the kernels that an
    operator has if it has none for it, and the place in PyTorch's sources."""
    words = str(value).replace(f"{NAME}:0", "cpu").replace(NAME, "cpu")
    words = re.sub(r"(Could not run '\S+' with) .*", r"\1", words, flags=re.S)
    return re.sub(r"\S+\.(cpp|h):\d+", "", words)


ATTRIBUTES = ("dtype", "layout", "requires_grad", "is_nested", "is_quantized")


def compare_tensors(found, expected, values=True, close=False):
    check("type", type(found), type(expected))
    check("device", found.device, DEVICE)
    for name in ATTRIBUTES:
        check(name, getattr(found, name), getattr(expected, name))
    if expected.is_nested or expected.layout != torch.strided:
        check("coalesced", coalesced(found), coalesced(expected))
        compare(parts(found), parts(expected), values, close)
        return
    check("shape", found.shape, expected.shape)
    check("conj bit", found.is_conj(), expected.is_conj())
    check("neg bit", found.is_neg(), expected.is_neg())
    check("strides", found.stride(), expected.stride())
    check("offset", found.storage_offset(), expected.storage_offset())
    if expected.is_quantized:
        compare(quantizer(found), quantizer(expected))
    if not values or torch.equal(bits(found), bits(expected)):
        return
    if not close or not alike_to_rounding(found, expected):
        raise DifferentError(how_far(found, expected))


def alike_to_rounding(found, expected):
    try:
        torch.testing.assert_close(
            found.detach().cpu(), expected.detach(), equal_nan=True
        )
    except AssertionError:
        return False
    return True


def coalesced(tensor):
    return tensor.layout == torch.sparse_coo and tensor.is_coalesced()


def parts(tensor):
    """What a tensor that is not strided is made of, and its shape."""
    tensor = tensor.detach()
    if tensor.layout == torch.jagged:
        return [tensor.values(), tensor.offsets(), tensor.dim()]
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values(), tensor.shape]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        plain, compressed = tensor.col_indices(), tensor.crow_indices()
    else:
        plain, compressed = tensor.row_indices(), tensor.ccol_indices()
    return [plain, compressed, tensor.values(), tensor.shape]


def quantizer(tensor):
    """What turns the integers of a quantized tensor into its numbers."""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return [tensor.qscheme(), tensor.q_scale(), tensor.q_zero_point()]
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return [tensor.qscheme(), scales, zeros, tensor.q_per_channel_axis()]


def bits(tensor):
    """The bytes of a tensor, the same ones for every NaN."""
    tensor = tensor.detach().cpu()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.clone(memory_format=torch.contiguous_format)
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.nan, tensor.double())
    return tensor.reshape(-1).view(torch.uint8)


def how_far(found, expected):
    found, expected = found.detach().cpu(), expected.detach()
    if expected.is_quantized or expected.dtype.itemsize < 1:
        return "values differ"
    wide = torch.complex128 if expected.is_complex() else torch.float64
    found, expected = found.to(wide), expected.to(wide)
    where = ~((found == expected) | (found.isnan() & expected.isnan()))
    if not where.any():
        return "values differ in the sign of zero"
    far = ((found - expected).abs() / expected.abs())[where].max().item()
    share = f"{where.sum().item()} of {where.numel()}"
    first = f"{found[where][0].item():.9g} instead of {expected[where][0].item():.9g}"
    return f"values differ in {share} places, by up to {far:.1e}: {first}"
