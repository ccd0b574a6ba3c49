"""make_graphed_callables() for the parts of a network."""

import torch
from torch import nn

N, D_in, H, D_out = 8, 16, 12, 4


def build(device):
    torch.manual_seed(0)
    modules = [nn.Linear(D_in, H), nn.Linear(H, D_out), nn.Linear(H, D_out)]
    return [m.to(device) for m in modules]


def train(device):
    module1, module2, module3 = build(device)
    loss_fn = nn.MSELoss()
    parameters = [p for m in (module1, module2, module3) for p in m.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    if device == "cuda":
        x = torch.randn(N, D_in, device="cuda")
        h = torch.randn(N, H, device="cuda", requires_grad=True)
        module1 = torch.cuda.make_graphed_callables(module1, (x,))
        module2 = torch.cuda.make_graphed_callables(module2, (h,))
        module3 = torch.cuda.make_graphed_callables(module3, (h,))
    torch.manual_seed(3)
    losses = []
    for _ in range(6):
        data = torch.randn(N, D_in).to(device)
        target = torch.randn(N, D_out).to(device)
        optimizer.zero_grad(set_to_none=True)
        tmp = module1(data)
        tmp = module2(tmp) if tmp.sum().item() > 0 else module3(tmp)
        loss = loss_fn(tmp, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.testing.assert_close(train("cuda"), train("cpu"))
