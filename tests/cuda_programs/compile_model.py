"""torch.compile of a model that trains."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 32)
        self.b = nn.Linear(32, 4)

    def forward(self, x):
        return self.b(nn.functional.gelu(self.a(x)) * 0.5)


def train(device, compiled):
    torch.manual_seed(0)
    net = Net().to(device)
    model = torch.compile(net) if compiled else net
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    x, y = torch.randn(8, 16).to(device), torch.randn(8, 4).to(device)
    losses = []
    for _ in range(4):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.testing.assert_close(train("cuda", True), train("cpu", False))


@torch.compile(fullgraph=True)
def on_the_device(x):
    y = torch.arange(4, device="cuda") + x
    return y.softmax(0), y.device.type == "cuda"


result, is_right = on_the_device(torch.ones(4, device="cuda"))
assert is_right and result.is_cuda
torch.testing.assert_close(result.cpu(), torch.arange(1.0, 5.0).softmax(0))
