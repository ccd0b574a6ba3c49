"""Memory in pools of its own, beside an activation that is saved on the host."""

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu


def build(device):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 8)
    ).to(device)


x, y = torch.randn(16, 32), torch.randn(16, 8)


def train(device, context):
    model = build(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    torch.manual_seed(1)
    for _ in range(3):
        with context():
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


expected = train("cuda", lambda: save_on_cpu(pin_memory=False))
assert train("cuda", lambda: save_on_cpu(pin_memory=True)) == expected

pool = torch.cuda.MemPool()
assert train("cuda", lambda: torch.cuda.use_mem_pool(pool)) == expected
with torch.cuda.use_mem_pool(pool):
    cache = torch.zeros(1 << 20, device="cuda")
segments = pool.snapshot()
assert sum(segment["total_size"] for segment in segments) >= 4 << 20
other = torch.zeros(1 << 20, device="cuda")
starts = [(s["address"], s["address"] + s["total_size"]) for s in segments]
assert any(begin <= cache.data_ptr() < end for begin, end in starts)
assert not any(begin <= other.data_ptr() < end for begin, end in starts)
