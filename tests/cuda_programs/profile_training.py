"""The profiler with a schedule, and the table that people print."""

import os
import tempfile

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

model = nn.Linear(64, 64).cuda()
inputs = torch.randn(32, 64).cuda()
traces = []

with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=1, warmup=1, active=2),
    on_trace_ready=lambda p: traces.append(p.key_averages()),
    record_shapes=True,
    profile_memory=True,
) as prof:
    for _ in range(4):
        with record_function("model_inference"):
            model(inputs).sum().backward()
        prof.step()
assert len(traces) == 1

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    with record_function("my range"):
        model(inputs)
    torch.cuda.synchronize()
table = prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=10)
assert "aten::addmm" in table and "Self CUDA" in table, table
linear = {event.key: event for event in prof.key_averages()}["aten::addmm"]
assert linear.device_time_total > 0
assert any(event.name == "my range" for event in prof.events())
file = os.path.join(tempfile.mkdtemp(), "trace.json")
prof.export_chrome_trace(file)
assert os.path.getsize(file) > 1000
