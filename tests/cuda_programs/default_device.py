"""torch.set_default_device("cuda"), and a device as a context."""

import torch
from torch import nn

torch.set_default_device("cuda")
assert torch.get_default_device() == torch.device("cuda:0")
x = torch.randn(4, 3)
assert x.is_cuda
model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
assert all(t.is_cuda for t in model.state_dict().values())
assert model(x).is_cuda and torch.arange(3).device.type == "cuda"
with torch.device("cpu"):
    assert not torch.ones(1).is_cuda
with torch.device("cuda:1"):
    assert torch.zeros(2).get_device() == 1
torch.set_default_device("cuda:1")
assert torch.tensor([1.0]).get_device() == 1
torch.set_default_device(None)
assert not torch.ones(1).is_cuda

with torch.device("meta"):
    big = nn.Linear(8, 8)
big = big.to_empty(device="cuda")
nn.init.ones_(big.weight)
assert big.weight.sum().item() == 64
assert torch.accelerator.is_available()
assert torch.accelerator.current_accelerator().type == "cuda"
assert torch.get_device_module("cuda") is torch.cuda
assert torch.utils._device is not None
