"""Code of PyTorch's first years: tensor types, .cuda() everywhere."""

import torch
from torch import nn

x = torch.cuda.FloatTensor([[1, 2], [3, 4]])
assert x.is_cuda and x.get_device() == 0 and x.dtype is torch.float32
assert x.type() == "torch.cuda.FloatTensor"
assert isinstance(x, torch.cuda.FloatTensor)
assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
index = torch.cuda.LongTensor([1, 0])
assert torch.equal(x[index].cpu(), torch.tensor([[3.0, 4.0], [1.0, 2.0]]))
assert torch.cuda.HalfTensor(3, 4).shape == (3, 4)
assert x.type(torch.cuda.DoubleTensor).dtype is torch.float64
assert torch.ones(2).type("torch.cuda.FloatTensor").is_cuda
assert x.new(2, 3).is_cuda and x.new_zeros(4).device == x.device

use_cuda = torch.cuda.is_available()
net = nn.Linear(2, 2)
if use_cuda:
    net.cuda()
assert all(p.is_cuda for p in net.parameters())
assert next(net.parameters()).data.is_cuda
assert net(x).sum().backward() is None
net.cpu()
assert not net.weight.is_cuda

with torch.cuda.device(1):
    assert torch.cuda.current_device() == 1
    assert torch.cuda.FloatTensor(2).get_device() == 1
    assert torch.ones(2).cuda().get_device() == 1
assert x.cuda(1).device == torch.device("cuda:1")
assert torch.cuda.current_device() == 0
with torch.cuda.device_of(x.cuda(1)):
    assert torch.cuda.current_device() == 1
storage = x.storage() if hasattr(x, "untyped_storage") else None
assert storage.is_cuda and storage.untyped().device.type == "cuda"
assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], device='cuda:0')"
