"""DistributedDataParallel whose ranks torch.multiprocessing starts."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
DATA, TARGET = torch.randn(16, 10), torch.randn(16, 5)


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))


def step(model, data, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.mse_loss(model(data), target).backward()
    optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def demo_basic(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = DDP(make_model().to(rank), device_ids=[rank])
    part = slice(rank * 8, rank * 8 + 8)
    got = step(model, DATA[part].to(rank), TARGET[part].to(rank))
    torch.testing.assert_close(got, step(make_model(), DATA, TARGET))
    dist.destroy_process_group()


if __name__ == "__main__":
    assert torch.cuda.device_count() >= 2
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    mp.spawn(demo_basic, args=(2, port), nprocs=2, join=True)
