"""A small residual network in channels_last with cudnn.benchmark."""

import torch
import torch.backends.cudnn as cudnn
from torch import nn

cudnn.benchmark = True
cudnn.deterministic = False
torch.backends.cuda.matmul.allow_tf32 = True
assert cudnn.enabled


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + x)


def run(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        Block(8),
        nn.MaxPool2d(2),
        Block(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )
    data, target = torch.randn(8, 3, 16, 16), torch.randint(10, (8,))
    model = model.to(device, memory_format=torch.channels_last)
    data = data.to(device, memory_format=torch.channels_last)
    target = target.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        optimizer.zero_grad(set_to_none=True)
        output = model(data)
        loss = nn.functional.cross_entropy(output, target, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert model[0](data).is_contiguous(memory_format=torch.channels_last)
    return losses


torch.testing.assert_close(run("cuda"), run("cpu"))
