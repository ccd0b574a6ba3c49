# torchrun --nproc-per-node 2
"""DistributedDataParallel as its tutorial starts it: with Gloo, on GPUs."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
assert dist.get_backend() == "gloo"


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def train(model, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    torch.manual_seed(rank)
    losses = []
    for _ in range(3):
        x, y = torch.randn(20, 10), torch.randn(20, 5)
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)
model = ToyModel()
on_gpu = DistributedDataParallel(ToyModel().to(rank), device_ids=[rank])
on_gpu.module.load_state_dict(model.state_dict())
on_cpu = DistributedDataParallel(model)
torch.testing.assert_close(train(on_gpu, rank), train(on_cpu, "cpu"))

# What the tutorial shows next: rank 0 saves, others load to their own device.
if rank == 0:
    torch.save(on_gpu.state_dict(), "model.checkpoint")
dist.barrier()
weights = torch.load("model.checkpoint", map_location={"cuda:0": f"cuda:{rank}"})
assert {t.device.index for t in weights.values()} == {rank}

# Tensors of both kinds in one group, and a group of its own for the host.
both = [torch.full((3,), rank + 1.0), torch.full((3,), rank + 1.0).cuda(rank)]
for tensor in both:
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0] * 3
hosts = dist.new_group(backend="gloo")
dist.monitored_barrier(hosts)
gathered = [None, None]
dist.all_gather_object(gathered, os.environ["LOCAL_RANK"])
assert gathered == ["0", "1"]
dist.destroy_process_group()
