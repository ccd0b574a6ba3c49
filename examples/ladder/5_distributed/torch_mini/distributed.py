"""The process group "miniccl". It carries everything over the host, with Gloo from
the wheel; a library of the device's own takes Gloo's place, call by call."""

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_unflatten

# Method -> Gloo's method, and which arguments it writes: by place, or all (None).
COLLECTIVES = {
    "_allgather_base": ("_allgather_base", (0,)),
    "_reduce_scatter_base": ("_reduce_scatter_base", (0,)),
    "all_gather_single": ("_allgather_base", (0,)),
    "all_to_all_single": ("alltoall_base", (0,)),
    "allgather": ("allgather", (0,)),
    "allreduce": ("allreduce", None),
    "allreduce_coalesced": ("allreduce_coalesced", None),
    "alltoall": ("alltoall", (0,)),
    "alltoall_base": ("alltoall_base", (0,)),
    "broadcast": ("broadcast", None),
    "gather": ("gather", (0,)),
    "recv": ("recv", None),
    "recv_anysource": ("recv_anysource", None),
    "reduce": ("reduce", None),
    "reduce_scatter": ("reduce_scatter", (0,)),
    "reduce_scatter_single": ("_reduce_scatter_base", (0,)),
    "scatter": ("scatter", (0,)),
    "send": ("send", ()),
}


def finished(result):
    """Work that is done."""
    future = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


class GroupOverHost(dist.ProcessGroup):
    """Copies tensors to the host, lets Gloo work, and copies back what it wrote."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self):
        return "miniccl"

    def barrier(self, opts=None):
        torch.accelerator.synchronize()
        self.gloo.barrier().wait()
        return finished([])


def collective(name, written):
    """A method that stages its tensors for Gloo's method of that name."""

    def call(self, *arguments):
        flat, structure = tree_flatten(list(arguments))
        host = [x.cpu() if isinstance(x, torch.Tensor) else x for x in flat]
        staged = tree_unflatten(host, structure)
        getattr(self.gloo, name)(*staged).wait()
        places = range(len(arguments)) if written is None else written
        for place in places:
            targets, _ = tree_flatten(arguments[place])
            sources, _ = tree_flatten(staged[place])
            for target, source in zip(targets, sources, strict=True):
                if isinstance(target, torch.Tensor):
                    target.copy_(source)
        first, _ = tree_flatten(arguments[0])
        return finished([x for x in first if isinstance(x, torch.Tensor)])

    return call


for method, (name, written) in COLLECTIVES.items():
    setattr(GroupOverHost, method, collective(name, written))

dist.Backend.register_backend("miniccl", GroupOverHost, devices=["mini"])
