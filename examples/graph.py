"""A training step, recorded once and replayed.

Python, dispatch and allocation cost a small step more than its arithmetic. A graph
pays for them once: a replay runs the recorded kernels on the same memory. So each
batch is copied into the tensor that the step was recorded with, and the loss is read
from the tensor that the step returned.
"""

import time

import torch
from torch import nn

m = torch.openreg
STEPS = 50


def make():
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(32, 1)).to("openreg")
    optimizer = torch.optim.Adam(model.parameters(), 0.01, capturable=True)
    x = torch.zeros(16, 32, device="openreg")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return x, step, optimizer


def batches():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(16, 32, generator=generator) for _ in range(STEPS)]


def losses(x, run):
    found, start = [], time.perf_counter()
    for batch in batches():
        x.copy_(batch)
        found.append(run().item())
    return found, time.perf_counter() - start


x, step, _ = make()
for _ in range(3):
    step()
eager, eager_time = losses(x, step)

x, step, optimizer = make()
# The first steps make what later ones find: gradients, the optimizer's state.
side = m.Stream()
side.wait_stream(m.current_stream())
with m.stream(side):
    for _ in range(3):
        step()
m.current_stream().wait_stream(side)
optimizer.zero_grad(set_to_none=True)

graph = m.OpenRegGraph()
with m.graph(graph):
    loss = step()  # is recorded, and does not run


def replay():
    graph.replay()
    return loss


replayed, replay_time = losses(x, replay)
print(f"the first loss is {eager[0]:.4f}, the last {eager[-1]:.4f}")
print(f"with and without a graph the same: {eager == replayed}")
print(f"a replay takes {replay_time / eager_time:.2f} of the time of a step")
assert eager == replayed
