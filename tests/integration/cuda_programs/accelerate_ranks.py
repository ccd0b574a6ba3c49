# accelerate launch --multi_gpu --num_processes 2 --num_machines 1
"""accelerate with two ranks: each trains on half of a batch, as one would on all of it."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator()
assert accelerator.num_processes == 2
assert accelerator.device == torch.device("cuda", accelerator.process_index)
torch.manual_seed(0)
model, twin = nn.Linear(8, 3), nn.Linear(8, 3)
twin.load_state_dict(model.state_dict())
x, y = torch.randn(16, 8), torch.randint(3, (16,))


def train(model, optimizer, x, y, backward):
    for _ in range(4):
        backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()


train(twin, torch.optim.SGD(twin.parameters(), lr=0.1), x, y, torch.Tensor.backward)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
part = slice(8 * accelerator.process_index, 8 * accelerator.process_index + 8)
half = x[part].to(accelerator.device), y[part].to(accelerator.device)
train(model, optimizer, *half, accelerator.backward)
weight = accelerator.unwrap_model(model).weight
torch.testing.assert_close(weight.cpu(), twin.weight)
ranks = accelerator.gather(torch.tensor([accelerator.process_index]).cuda())
assert ranks.tolist() == [0, 1]
accelerator.end_training()
