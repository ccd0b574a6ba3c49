"""How much memory a step needs, as people print it."""

import torch
from torch import nn

MIB = 1024**2
device = torch.device("cuda:0")
assert torch.cuda.memory_allocated() == 0
x = torch.empty(4 * MIB, dtype=torch.uint8, device=device)
assert torch.cuda.memory_allocated(device) == 4 * MIB
assert torch.cuda.memory_reserved(device) >= 4 * MIB
y = torch.empty(32 * MIB, dtype=torch.uint8, device=device)
del y
assert torch.cuda.max_memory_allocated(device) == 36 * MIB
torch.cuda.reset_peak_memory_stats(device)
assert torch.cuda.max_memory_allocated() == 4 * MIB
before = torch.cuda.memory_reserved()
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < before

stats = torch.cuda.memory_stats()
assert stats["allocated_bytes.all.current"] == 4 * MIB
assert stats["num_ooms"] == 0 and stats["allocation.all.current"] == 1
free, total = torch.cuda.mem_get_info()
assert 0 < free < total == torch.cuda.get_device_properties(0).total_memory
assert "PyTorch CUDA memory summary, device ID 0" in torch.cuda.memory_summary()

model = nn.Linear(512, 512).to(device)
parameters = 4 * (512 * 512 + 512)
held = torch.cuda.memory_allocated() - 4 * MIB
assert parameters <= held < parameters + 2 * 512
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(8, 512, device=device)).sum().backward()
optimizer.step()
# Parameters, gradients and two moments.
assert torch.cuda.memory_allocated() - 4 * MIB >= 4 * parameters
assert torch.cuda.memory_allocated(1) == 0
segments = torch.cuda.memory_snapshot()
assert {s["device"] for s in segments} == {0}

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    z = torch.empty(2 * MIB, dtype=torch.uint8, device=device)
assert sum(s["allocated_size"] for s in pool.snapshot()) >= 2 * MIB
