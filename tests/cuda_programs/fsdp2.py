# torchrun --nproc-per-node 2
"""FSDP2 with mixed precision, compiled, and a state dict of the whole model."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))


def shard(model):
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


torch.manual_seed(1)
x, y = torch.randn(4, 8), torch.randn(4, 8)
model = shard(build().cuda())
assert str(model[0].weight.device).startswith("cuda")
expected = train(build(), x, y)
torch.testing.assert_close(train(model, x.cuda(), y.cuda()), expected)

compiled = torch.compile(shard(build().cuda()))
torch.testing.assert_close(train(compiled, x.cuda(), y.cuda()), expected)

whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
assert whole["0.weight"].shape == (32, 8)

half = build().cuda()
fully_shard(half, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
assert half(x.cuda()).dtype is torch.bfloat16
dist.destroy_process_group()
