# torchrun --nproc-per-node 2
"""FSDP2 as its tutorial does it: a model without memory is sharded, and its shards are
filled with random numbers where they are; dropout in tensor parallelism."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, rand

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (2,))
torch.manual_seed(0)

with torch.device("meta"):
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
model.to_empty(device="cuda")
for layer in model:
    if isinstance(layer, nn.Linear):
        layer.reset_parameters()


def halves_differ(tensor):
    whole = tensor.full_tensor()
    first, second = whole.chunk(2)
    assert whole.isfinite().all() and (first != second).any()
    return whole


weight = halves_differ(model[0].weight)
bound = 1 / 4  # of kaiming_uniform_() with 16 inputs
assert weight.abs().max() <= bound and weight.std() > bound / 3
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(8, 16, device="cuda")
losses = []
for _ in range(5):
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
assert losses[-1] < losses[0]

# Ranks have the same numbers where a tensor is replicated, and go on with the same.
halves_differ(rand(8, 4, device_mesh=mesh, placements=[Shard(0)]))
replicated = rand(8, 4, device_mesh=mesh, placements=[Replicate()]).to_local()
later = torch.rand(4, device="cuda")
for numbers in (replicated, later):
    theirs = numbers.clone()
    dist.broadcast(theirs, 0)
    assert torch.equal(theirs, numbers)

ones = distribute_tensor(torch.ones(64, 8, device="cuda"), mesh, [Shard(0)])
dropped = halves_differ(nn.functional.dropout(ones, 0.5))
assert set(dropped.unique().tolist()) == {0.0, 2.0}
compiled = torch.compile(
    lambda t: nn.functional.dropout(t, 0.5) * 3, backend="aot_eager"
)
assert set(halves_differ(compiled(ones)).unique().tolist()) == {0.0, 6.0}
dist.destroy_process_group()
