"""Seeds, generators and deterministic algorithms."""

import os
import random

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False


def set_seed(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def run(seed):
    set_seed(seed)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 1)).cuda()
    data = torch.randn(64, 8, device="cuda")
    noise = [torch.rand(3, device=f"cuda:{i}").cpu() for i in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.stack(noise).tolist()


assert run(1) == run(1) and run(1) != run(2)
generator = torch.Generator(device="cuda").manual_seed(42)
first = torch.randn(5, device="cuda", generator=generator)
generator.manual_seed(42)
assert torch.equal(first, torch.randn(5, device="cuda", generator=generator))
assert generator.device.type == "cuda"
assert torch.cuda.initial_seed() == 2
states = torch.cuda.get_rng_state_all()
permutation = torch.randperm(10, device="cuda")
torch.cuda.set_rng_state_all(states)
assert torch.equal(permutation, torch.randperm(10, device="cuda"))
assert len(torch.cuda.default_generators) == torch.cuda.device_count()
