# torchrun --nproc-per-node 2
"""DistributedDataParallel with NCCL, started by torchrun."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
assert dist.get_backend() == "nccl"

torch.manual_seed(0)
x, y = torch.randn(32, 10), torch.randn(32, 1)
model = nn.Sequential(
    nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)
)
model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(local_rank)
ddp = DDP(model, device_ids=[local_rank], output_device=local_rank)
optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
sampler = DistributedSampler(TensorDataset(x, y), shuffle=True, seed=3)
loader = DataLoader(TensorDataset(x, y), batch_size=8, sampler=sampler)

means = []
for epoch in range(3):
    sampler.set_epoch(epoch)
    for data, target in loader:
        data, target = data.cuda(non_blocking=True), target.cuda(non_blocking=True)
        loss = nn.functional.mse_loss(ddp(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        means.append(mean.item())
assert means[-1] < means[0], means

total = sum(p.double().sum() for p in ddp.parameters())
gathered = [torch.zeros_like(total) for _ in range(world)]
dist.all_gather(gathered, total)
assert all(torch.equal(g, total) for g in gathered), gathered
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank, "device": str(total.device)})
assert [o["device"] for o in objects] == [f"cuda:{r}" for r in range(world)]
dist.barrier()
dist.destroy_process_group()
