"""NVTX ranges, cudaProfilerStart and emit_nvtx around a training step."""

import torch
import torch.cuda.nvtx as nvtx
from torch import nn

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@nvtx.range("train step")
def step(x):
    depth = nvtx.range_push("forward")
    loss = model(x).square().mean()
    assert nvtx.range_pop() == depth
    nvtx.mark("backward starts")
    handle = nvtx.range_start("backward")
    loss.backward()
    nvtx.range_end(handle)
    optimizer.step()
    return loss


torch.cuda.cudart().cudaProfilerStart()
with torch.autograd.profiler.emit_nvtx(record_shapes=True):
    assert step(torch.randn(4, 8, device="cuda")).item() > 0
torch.cuda.cudart().cudaProfilerStop()
with torch.cuda.profiler.profile():
    step(torch.randn(4, 8, device="cuda"))
