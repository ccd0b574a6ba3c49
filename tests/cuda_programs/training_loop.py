"""The first tutorial: a classifier, a loader, a loop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.randn(256, 1, 8, 8)
labels = images.flatten(1)[:, :4].argmax(1)


def run(device):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    losses = []
    for _ in range(3):
        model.train()
        for X, y in DataLoader(TensorDataset(images, labels), batch_size=64):
            X, y = X.to(device), y.to(device)
            loss = loss_fn(model(X), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        pred = model(images.to(device))
        correct = (pred.argmax(1) == labels.to(device)).type(torch.float).mean().item()
    return losses, correct


device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"Using {device} device")
assert device == "cuda"
losses, correct = run(device)
expected, correct_on_cpu = run("cpu")
torch.testing.assert_close(losses, expected)
assert correct == correct_on_cpu and losses[-1] < losses[0]
print(f"loss {losses[-1]:.4f}, accuracy {correct:.2f}")
