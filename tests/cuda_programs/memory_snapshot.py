"""A memory snapshot for pytorch.org/memory_viz."""

import os
import pickle
import tempfile

import torch
from torch import nn

torch.cuda.memory._record_memory_history(max_entries=100000)


def train():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        loss = model(torch.randn(16, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


model = train()
file = os.path.join(tempfile.mkdtemp(), "snapshot.pickle")
torch.cuda.memory._dump_snapshot(file)
torch.cuda.memory._record_memory_history(enabled=None)

with open(file, "rb") as opened:
    snapshot = pickle.load(opened)
assert {"segments", "device_traces"} <= set(snapshot)
trace = snapshot["device_traces"][0]
assert {"alloc", "free_requested"} <= {event["action"] for event in trace}
names = {frame["name"] for event in trace for frame in event.get("frames", ())}
assert "train" in names, names
blocks = [b for s in snapshot["segments"] for b in s["blocks"]]
active = sum(b["requested_size"] for b in blocks if b["state"] == "active_allocated")
assert active >= sum(p.numel() * 4 for p in model.parameters())

from torch.cuda._memory_viz import trace_plot  # noqa: E402

assert "<html" in trace_plot(snapshot) or "<!DOCTYPE" in trace_plot(snapshot)
