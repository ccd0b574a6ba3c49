"""An autograd.Function of one's own, in autocast as well."""

import torch
from torch.amp import custom_bwd, custom_fwd


class MyMM(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad.mm(b.t()), a.t().mm(grad)


class Float32Only(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        assert x.dtype is torch.float32 and not torch.is_autocast_enabled("cuda")
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp()


torch.manual_seed(0)
a = torch.randn(4, 5, device="cuda", requires_grad=True)
b = torch.randn(5, 3, device="cuda", requires_grad=True)
MyMM.apply(a, b).square().sum().backward()
x, y = (t.detach().cpu().requires_grad_() for t in (a, b))
(x @ y).square().sum().backward()
torch.testing.assert_close(a.grad.cpu(), x.grad)
torch.testing.assert_close(b.grad.cpu(), y.grad)

with torch.autocast("cuda"):
    product = MyMM.apply(a, b)
    assert product.dtype is torch.float16
    assert Float32Only.apply(product).dtype is torch.float32
double = (a.detach().double().requires_grad_(), b.detach().double().requires_grad_())
assert torch.autograd.gradcheck(MyMM.apply, double)
