"""A batch size that is halved until it fits."""

import torch
from torch import nn

total = torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(512 * 1024**2 / total, 0)
model = nn.Linear(1024, 1024).cuda()


def train_step(batch_size):
    x = torch.randn(batch_size, 1024, device="cuda")
    model(x).relu().sum().backward()


batch_size, failures = 262144, 0
while True:
    try:
        train_step(batch_size)
        break
    except torch.cuda.OutOfMemoryError as error:
        assert "out of memory" in str(error) and "Tried to allocate" in str(error)
        failures += 1
        batch_size //= 2
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
assert failures >= 1 and batch_size >= 1024, (failures, batch_size)
assert torch.cuda.memory_stats()["num_ooms"] == failures

try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except RuntimeError as error:  # as older code catches it
    assert "out of memory" in str(error)
    assert isinstance(error, torch.OutOfMemoryError)
else:
    raise AssertionError("a petabyte was allocated")
