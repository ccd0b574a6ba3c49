"""torch.func: an ensemble of models, gradients per sample, forward mode."""

import torch
from torch import nn
from torch.func import functional_call, grad, jvp, stack_module_state, vmap

torch.manual_seed(0)
device = "cuda"
models = [nn.Linear(6, 3).to(device) for _ in range(4)]
params, buffers = stack_module_state(models)
x = torch.randn(5, 6, device=device)


def call(p, b, data):
    return functional_call(models[0], (p, b), (data,))


together = vmap(call, in_dims=(0, 0, None))(params, buffers, x)
one_by_one = torch.stack([model(x) for model in models])
torch.testing.assert_close(together, one_by_one)

weights = dict(models[0].named_parameters())
target = torch.randint(3, (5,), device=device)


def loss(p, sample, label):
    scores = functional_call(models[0], p, (sample.unsqueeze(0),))
    return nn.functional.cross_entropy(scores, label.unsqueeze(0))


detached = {k: v.detach() for k, v in weights.items()}
per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(detached, x, target)
nn.functional.cross_entropy(models[0](x), target, reduction="sum").backward()
torch.testing.assert_close(per_sample["weight"].sum(0), models[0].weight.grad)
value, tangent = jvp(torch.sin, (x,), (torch.ones_like(x),))
torch.testing.assert_close(tangent, x.cos())
assert value.is_cuda
