"""Activations that are computed again, with the same dropout."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 16))
block = block.cuda()
x = torch.randn(32, 16, device="cuda")


def gradients(run):
    torch.manual_seed(5)
    torch.cuda.manual_seed(5)
    block.zero_grad()
    run(x.clone().requires_grad_()).square().mean().backward()
    return [p.grad.clone() for p in block.parameters()]


plain = gradients(block)
for reentrant in (False, True):
    again = gradients(lambda t: checkpoint(block, t, use_reentrant=reentrant))
    assert all(torch.equal(p, a) for p, a in zip(plain, again)), reentrant
again = gradients(lambda t: checkpoint_sequential(block, 2, t, use_reentrant=False))
assert all(torch.equal(p, a) for p, a in zip(plain, again))

state = torch.cuda.get_rng_state()
first = torch.rand(4, device="cuda")
torch.cuda.set_rng_state(state)
assert torch.equal(first, torch.rand(4, device="cuda"))
with torch.random.fork_rng(devices=[0]):
    torch.rand(100, device="cuda")
second = torch.rand(4, device="cuda")
torch.cuda.set_rng_state(state)
torch.rand(4, device="cuda")
assert torch.equal(second, torch.rand(4, device="cuda"))
