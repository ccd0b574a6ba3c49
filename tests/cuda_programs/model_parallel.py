"""A network whose halves are on two devices, and a pipeline over them."""

import torch
from torch import nn


class ToyModel(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = first, second
        self.net1 = nn.Linear(10, 20).to(first)
        self.net2 = nn.Linear(20, 5).to(second)

    def forward(self, x):
        x = torch.relu(self.net1(x.to(self.first)))
        return self.net2(x.to(self.second))

    def pipeline(self, x, size):
        splits = iter(x.split(size))
        previous = torch.relu(self.net1(next(splits).to(self.first))).to(self.second)
        outputs = []
        for part in splits:
            outputs.append(self.net2(previous))
            previous = torch.relu(self.net1(part.to(self.first))).to(self.second)
        outputs.append(self.net2(previous))
        return torch.cat(outputs)


def train(first, second):
    model = ToyModel(first, second)
    torch.manual_seed(1)
    data, labels = torch.randn(20, 10), torch.randn(20, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        outputs = model.pipeline(data, 5) if step % 2 else model(data)
        loss = nn.functional.mse_loss(outputs, labels.to(second))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


assert torch.cuda.device_count() >= 2
assert torch.cuda.can_device_access_peer(0, 1)
torch.testing.assert_close(train("cuda:0", "cuda:1"), train("cpu", "cpu"))
try:
    torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
except RuntimeError as error:
    assert "cuda:0" in str(error) and "cuda:1" in str(error)
else:
    raise AssertionError("tensors of two devices were added")
