# torchrun --nproc-per-node 2
"""Tensor parallelism by DTensor: layers split by columns and by rows."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
mesh = init_device_mesh("cuda", (size,))


class Feedforward(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


def train(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


torch.manual_seed(1)
x, y = torch.randn(4, 8), torch.randn(4, 8)
plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
model = parallelize_module(Feedforward().cuda(), mesh, plan)
assert isinstance(model.up.weight, DTensor)
assert model.up.weight.to_local().shape == (32 // size, 8)
assert model.up.weight.to_local().is_cuda
losses = train(model, x.cuda(), y.cuda())
torch.testing.assert_close(losses, train(Feedforward(), x, y))

whole = torch.arange(8.0, device="cuda").reshape(4, 2)
rows = distribute_tensor(whole, mesh, [Shard(0)])
assert torch.equal(rows.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
total = (rows * 2).sum().redistribute(mesh, [Replicate()]).to_local()
assert total.item() == 56 and total.device == torch.device("cuda", rank)
dist.destroy_process_group()
