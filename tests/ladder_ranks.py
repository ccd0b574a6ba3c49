"""A rank of the ladder's process group: every collective, objects, and data-parallel
training. `torch.distributed.run --nproc-per-node 2 ladder_ranks.py`."""

import torch
import torch.distributed as dist
import torch_mini  # noqa: F401

dist.init_process_group("miniccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.accelerator.set_device_index(rank)
DEVICE = f"mini:{rank}"


def full(count, value=None):
    value = rank if value is None else value
    return torch.full((count,), float(value), device=DEVICE)


def expect(found, *numbers):
    assert found.tolist() == [*map(float, numbers)], found
    assert found.device == torch.device(DEVICE)


x = full(3, rank + 1)
dist.all_reduce(x)
expect(x, 3, 3, 3)
gathered = [full(2, 9) for _ in range(size)]
dist.all_gather(gathered, full(2))
expect(torch.cat(gathered), 0, 0, 1, 1)
dist.all_gather_into_tensor(x := full(2), full(1))
expect(x, 0, 1)
dist.reduce_scatter_tensor(x := full(1), torch.arange(2.0, device=DEVICE))
expect(x, 2 * rank)
dist.all_to_all_single(x := full(2), torch.arange(2.0, device=DEVICE) + 2 * rank)
expect(x, rank, 2 + rank)
dist.broadcast(x := full(2), 1)
expect(x, 1, 1)
dist.gather(full(1), gathered := [full(1) for _ in range(size)] if rank == 0 else None)
if rank == 0:
    expect(torch.cat(gathered), 0, 1)
dist.scatter(x := full(1), [full(1, 5 + i) for i in range(size)] if rank == 0 else None)
expect(x, 5 + rank)
dist.reduce(x := full(1), 0)
expect(x, 1)
if rank == 0:
    dist.send(full(2, 7), 1)
else:
    dist.recv(x := full(2), 0)
    expect(x, 7, 7)
work = dist.all_reduce(x := full(1, 1), async_op=True)
work.wait()
expect(x, size)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.barrier()

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).to(DEVICE))
model(full(4)[None]).sum().backward()
expect(model.module.weight.grad[0], *[0.5] * 4)
dist.destroy_process_group()
