"""A small GPT on several devices, in three ways, with the losses of one device.

    python -m torch_openreg.launch --devices 4 examples/distributed.py

DistributedDataParallel gives each rank a part of every batch. FSDP2 gives it a part of
the parameters as well, and fetches the rest while they are needed. Tensor parallelism
gives it some heads of the attention and some columns of each layer, for all of the
batch. The three add the same numbers in another order. torchrun starts it as well:
then each rank names its device.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, LENGTH = 10, 8, 32
WIDTH, HEADS, BLOCKS, LETTERS = 64, 8, 2, 128


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        # As many heads as there are here: with tensor parallelism a rank has some.
        q, k, v = (
            project(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for project in (self.q, self.k, self.v)
        )
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, text):
        x = self.letters(text) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(x.flatten(0, 1))  # a row of scores for each letter


def make(device):
    torch.manual_seed(0)
    return GPT().to(device)


# It learns to write this file.
TEXT = torch.tensor(list(Path(__file__).read_bytes()))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(TEXT) - LENGTH, (BATCH,), generator=generator)
    text = torch.stack([TEXT[i : i + LENGTH + 1] for i in starts.tolist()])
    return text[:, :-1], text[:, 1:]


def train(model, device, part=slice(None), averaged=False):
    """The losses of all steps; `part` of a batch is this rank's."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, foreach=False)
    losses = []
    for step in range(STEPS):
        x, y = (t[part].to(device) for t in batch(step))
        loss = cross_entropy(model(x), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told = loss.detach().clone()
        if averaged:
            dist.all_reduce(told, dist.ReduceOp.AVG)
        losses.append(told)
    return torch.stack(losses).cpu()


def data_parallel(device, mesh, mine):
    return train(DistributedDataParallel(make(device)), device, mine, averaged=True)


def fully_sharded(device, mesh, mine):
    model = make(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return train(fully_shard(model, mesh=mesh), device, mine, averaged=True)


def tensor_parallel(device, mesh, mine):
    model = make(device)
    columns = ("attention.q", "attention.k", "attention.v", "up")
    plan = {name: ColwiseParallel() for name in columns}
    plan |= {name: RowwiseParallel() for name in ("attention.out", "down")}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return train(model, device)


def main():
    torch.openreg.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("openreg", torch.openreg.current_device())
    dist.init_process_group("occl", device_id=device)
    rank, size = dist.get_rank(), dist.get_world_size()
    if HEADS % size:
        raise SystemExit(f"{size} ranks cannot share {HEADS} heads: take 1, 2, 4 or 8")
    mesh = init_device_mesh("openreg", (size,))
    mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)

    def show(name, losses):
        if rank == 0:
            numbers = " ".join(f"{loss:.3f}" for loss in losses.tolist())
            print(f"{name:16} {numbers}")

    alone = train(make(device), device)
    show("one device", alone)
    same = True
    for way in (data_parallel, fully_sharded, tensor_parallel):
        losses = way(device, mesh, mine)
        show(way.__name__.replace("_", " "), losses)
        same = torch.allclose(losses, alone, rtol=1e-4) and same
    if rank == 0:
        print(f"with {size} ranks the same: {same}")
    dist.destroy_process_group()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
