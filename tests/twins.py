"""A case on the CPU and the same on the device, which is to give the same bits."""

import torch
from torch.utils._pytree import tree_leaves

DEVICE = "openreg:0"


def on_both(case):
    """What `case(device)` gives on the CPU and on the device, as leaves of its
    results, from the same seed."""
    results = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        results.append(tree_leaves(case(device)))
    return results


def check(case):
    """The results are equal bit by bit, and tensors are where they belong."""
    for theirs, ours in zip(*on_both(case), strict=True):
        if isinstance(theirs, torch.Tensor):
            assert ours.device == torch.device(DEVICE)
            assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
            assert torch.equal(ours.detach().cpu(), theirs.detach())
        else:
            assert ours == theirs


def numbers(*shape, device):
    """Some that differ, and the same each time."""
    count = torch.Size(shape).numel()
    return torch.linspace(-1, 2, count).sin().view(shape).to(device)
