"""nn.DataParallel over all devices."""

import torch
from torch import nn
from torch.nn.parallel import DataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 2)
        self.norm = nn.LayerNorm(2)
        self.seen = []

    def forward(self, input):
        self.seen.append(input.device)
        return self.norm(self.fc(input))


def train(device):
    torch.manual_seed(0)
    model = Model()
    seen = model.seen
    if device == "cuda" and torch.cuda.device_count() > 1:
        model = DataParallel(model)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, target = torch.randn(30, 5), torch.randn(30, 2)
    losses = []
    for _ in range(3):
        output = model(data.to(device))
        loss = nn.functional.mse_loss(output, target.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {str(d) for d in seen}


losses, devices = train("cuda")
torch.testing.assert_close(losses, train("cpu")[0])
assert devices == {f"cuda:{i}" for i in range(torch.cuda.device_count())}, devices
