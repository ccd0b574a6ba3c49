"""Mixed precision in float16 with a GradScaler, the old way and the new."""

import warnings

import torch
from torch import nn

device = torch.device("cuda")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(64, 32).cuda()
target = torch.randn(64, 8).cuda()

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0**10)
    old_style = torch.cuda.amp.autocast()

losses = []
for step in range(8):
    context = old_style if step % 2 else torch.autocast(device_type="cuda")
    with context:
        output = net(data)
        assert output.dtype is torch.float16
        loss = nn.functional.mse_loss(output, target)
        assert loss.dtype is torch.float32
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    assert torch.isfinite(norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses

# A gradient that is not finite skips the step and halves the scale.
scale, weights = scaler.get_scale(), net[0].weight.detach().clone()
scaler.scale(net(data).sum() * float("inf")).backward()
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == scale / 2
assert torch.equal(net[0].weight, weights)

with torch.amp.autocast("cuda", dtype=torch.bfloat16):
    assert net(data).dtype is torch.bfloat16
    with torch.amp.autocast("cuda", enabled=False):
        assert net(data).dtype is torch.float32
assert torch.cuda.is_bf16_supported()
