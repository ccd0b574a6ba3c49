"""Fits a line on pychip and on the CPU, and says which kernels to write next."""

import torch
import torch_pychip


def train(device):
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    x, y = x.to(device), x.sum(1, keepdim=True).to(device)
    relu = torch.nn.ReLU()
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), relu, torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.to(device).parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    return min(optimizer.step(step).item() for _ in range(50))


ours, cpu = train("pychip"), train("cpu")
print(f"pychip {ours:.4f}, cpu {cpu:.4f}")
torch.testing.assert_close(ours, cpu)
most = [f"{name} {count}x" for name, count in torch_pychip.fallbacks.most_common(4)]
print("without a kernel:", ", ".join(most))
