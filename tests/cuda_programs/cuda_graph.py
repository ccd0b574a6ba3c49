"""A whole training step as a CUDA graph, as in the documentation of PyTorch."""

import torch
from torch import nn

N, D_in, H, D_out = 16, 32, 16, 8


def build(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D_in, H), nn.Tanh(), nn.Linear(H, D_out)).to(device)
    return model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1)


model, loss_fn, optimizer = build("cuda")
static_input = torch.randn(N, D_in, device="cuda")
static_target = torch.randn(N, D_out, device="cuda")
first = {name: value.clone() for name, value in model.state_dict().items()}

# warmup
s = torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    for i in range(3):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(static_input), static_target)
        loss.backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(s)

# capture
g = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(g):
    assert torch.cuda.is_current_stream_capturing()
    static_loss = loss_fn(model(static_input), static_target)
    static_loss.backward()
    optimizer.step()
assert not torch.cuda.is_current_stream_capturing()
model.load_state_dict(first)

twin, _, twin_optimizer = build("cpu")
twin.load_state_dict({k: v.cpu() for k, v in first.items()})
torch.manual_seed(7)
for _ in range(5):
    data, target = torch.randn(N, D_in), torch.randn(N, D_out)
    static_input.copy_(data)
    static_target.copy_(target)
    g.replay()
    twin_optimizer.zero_grad()
    expected = loss_fn(twin(data), target)
    expected.backward()
    twin_optimizer.step()
    torch.testing.assert_close(static_loss.cpu(), expected.detach())
for mine, theirs in zip(model.parameters(), twin.parameters()):
    torch.testing.assert_close(mine.detach().cpu(), theirs.detach())

# Two graphs that share a pool.
pool = torch.cuda.graph_pool_handle()
g1, g2 = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(g1, pool=pool):
    a = static_input * 2
with torch.cuda.graph(g2, pool=g1.pool()):
    b = a + 1
static_input.fill_(3)
g1.replay()
g2.replay()
assert (b == 7).all().item()
