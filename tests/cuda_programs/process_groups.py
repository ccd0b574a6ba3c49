# torchrun --nproc-per-node 2
"""Groups of NCCL as large training programs make them: bound to a device, split, with
options and timeouts, and memory that ranks share."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
options = dist.ProcessGroupNCCL.Options()
options.is_high_priority_stream = True
options.config.min_ctas, options.config.max_ctas = 2, 8
timeout = timedelta(minutes=2)
options._timeout = timeout
dist.init_process_group("nccl", device_id=device, pg_options=options, timeout=timeout)


def total(group=None):
    x = torch.ones(4, device=device)
    dist.all_reduce(x, group=group)
    return x.sum().item()


assert total() == 8
assert total(dist.new_group([0, 1])) == 8
alone = [
    dist.new_group([r], pg_options=dist.ProcessGroupNCCL.Options()) for r in (0, 1)
]
assert total(alone[rank]) == 4
assert total(dist.split_group(split_ranks=[[0], [1]])) == 4
mesh = dist.init_device_mesh("cuda", (2, 1), mesh_dim_names=("data", "tensor"))
assert total(mesh["data"].get_group()) == 8 and total(mesh["tensor"].get_group()) == 4

# torchtitan shortens the timeout after the first step.
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=60))
nccl = dist.group.WORLD._get_backend(device)
assert nccl.options._timeout == timedelta(seconds=60)
assert nccl.options.config.max_ctas == 8
assert dist.ProcessGroupNCCL.get_build_nccl_version() == torch.cuda.nccl.version()
try:
    nccl._comm_ptr()
except RuntimeError as error:
    assert "handle of NCCL" in str(error)

# What is logged of objects to find out where they differ.
dist.set_debug_level(dist.DebugLevel.DETAIL)
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.set_debug_level(dist.DebugLevel.OFF)

x = symmetric.empty(4, device=device)
memory = symmetric.rendezvous(x, dist.group.WORLD)
x.fill_(rank + 1)
memory.barrier()
theirs = memory.get_buffer(1 - rank, (4,), torch.float32)
assert theirs.tolist() == [2.0 - rank] * 4
memory.barrier()
dist.destroy_process_group()
