"""Runs the same compiled program on the CPU and on the device.

Inductor makes the same C++ of both, so results are to be equal bit by bit: what the
program returns, what it changed of its inputs, and gradients.
"""

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = "openreg:0"


def move(values, device):
    """Copies of the tensors among `values` on the device, leaves of autograd as they
    were."""

    def copy(tensor):
        copied = tensor.detach().clone().to(device)
        return copied.requires_grad_(tensor.requires_grad)

    return tree_map_only(torch.Tensor, copy, values)


def compile(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, **{"fullgraph": True, **options})


def run(function, inputs, device):
    """What `function` gives and does for inputs on the device."""
    torch.manual_seed(0)
    inputs = move(inputs, device)
    results = tree_leaves(function(*inputs))
    ends = [
        y.float().sin().sum()
        for y in results
        if isinstance(y, torch.Tensor) and y.requires_grad
    ]
    if ends:
        sum(end.to(device) for end in ends).backward()
    leaves = tree_leaves(inputs)
    grads = [x.grad for x in leaves if getattr(x, "requires_grad", False)]
    return results, leaves, grads


def equal_bits(ours, theirs):
    ours, theirs = ours.detach().cpu(), theirs.detach().cpu()
    if ours.dtype.is_floating_point or ours.dtype.is_complex:
        return torch.equal(ours.nan_to_num(1e3), theirs.nan_to_num(1e3))
    return torch.equal(ours, theirs)


def check_same(ours, theirs, where="result", close=False):
    """Leaves of results on the device and on the CPU are the same, bit by bit or to
    rounding; a tensor that is the CPU's for both may stay there."""
    ours, theirs = tree_leaves(ours), tree_leaves(theirs)
    assert len(ours) == len(theirs), where
    for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        name = f"{where} {index}"
        if not isinstance(their, torch.Tensor):
            assert our == their, name
            continue
        assert (our.shape, our.dtype) == (their.shape, their.dtype), name
        assert our.stride() == their.stride(), name
        if close:
            torch.testing.assert_close(our.detach().cpu(), their.detach().cpu())
        elif not equal_bits(our, their):
            far = (our.detach().cpu().double() - their.detach().double()).abs().max()
            raise AssertionError(f"{name} differs by up to {far.item():.2e}")


def check_compiled(function, *calls, close=False, **options):
    """Compiles a function for each device, calls it with each list of inputs, and
    compares; gradients to rounding if `close`."""
    found = []
    for device in ("cpu", DEVICE):
        fast = compile(function, **options)
        found.append([run(fast, inputs, device) for inputs in calls])
    for number, (theirs, ours) in enumerate(zip(*found, strict=True)):
        for what, their, our in zip(("result", "input", "grad"), theirs, ours):
            to_rounding = close and what == "grad"
            check_same(our, their, f"call {number}: {what}", to_rounding)


def check_eager(function, *inputs, **options):
    """Compiled and not compiled give the same, to rounding."""
    ours = run(compile(function, **options), inputs, DEVICE)
    theirs = run(function, inputs, DEVICE)
    for our, their in zip(ours, theirs, strict=True):
        check_same(our, their, close=True)
