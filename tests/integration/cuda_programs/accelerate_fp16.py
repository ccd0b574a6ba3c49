"""accelerate in fp16, with a state that is saved and loaded."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(mixed_precision="fp16")
assert accelerator.device.type == "cuda"
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
x = torch.randn(64, 8)
loader = DataLoader(TensorDataset(x, x.argmax(1) % 3), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for _ in range(6):
    for data, target in loader:
        assert data.is_cuda
        with accelerator.autocast():
            loss = nn.functional.cross_entropy(model(data), target)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
assert losses[-1] < losses[0], losses
folder = tempfile.mkdtemp()
accelerator.save_state(folder)
number = torch.rand(3, device="cuda")
accelerator.load_state(folder)
assert torch.equal(number, torch.rand(3, device="cuda"))
