# torchrun --nproc-per-node 2
"""FullyShardedDataParallel with an automatic wrap policy and a saved state."""

import functools
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))


def train(model, x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


torch.manual_seed(1)
x, y = torch.randn(8, 8), torch.randn(8, 8)
policy = functools.partial(size_based_auto_wrap_policy, min_num_params=200)
model = FSDP(
    build(),
    auto_wrap_policy=policy,
    device_id=torch.cuda.current_device(),
    use_orig_params=True,
)
part = slice(rank * 8 // size, (rank + 1) * 8 // size)
losses = train(model, x[part].cuda(), y[part].cuda()).cuda()
dist.all_reduce(losses, op=dist.ReduceOp.AVG)
plain = build()
torch.testing.assert_close(losses.cpu(), train(plain, x, y))

options = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, options):
    state = model.state_dict()
if rank == 0:
    with tempfile.TemporaryFile() as file:
        torch.save(state, file)
        file.seek(0)
        torch.testing.assert_close(torch.load(file), dict(plain.state_dict()))
dist.destroy_process_group()
