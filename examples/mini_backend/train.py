"""Trains an MLP on mini and on the CPU; the losses agree."""

import torch
import torch_mini  # noqa: F401


def train(device):
    torch.manual_seed(0)
    data = torch.randn(64, 8).to(device)
    layers = torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(50):
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


mini, cpu = train("mini"), train("cpu")
print(f"mini {mini:.4f}, cpu {cpu:.4f}")
torch.testing.assert_close(mini, cpu)
