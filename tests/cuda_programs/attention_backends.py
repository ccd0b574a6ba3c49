"""Scaled dot product attention with the backends that a program may choose."""

import torch
import torch.nn.functional as F
from torch.backends.cuda import SDPAParams, can_use_flash_attention
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.manual_seed(0)
q, k, v = (torch.randn(2, 4, 16, 8) for _ in range(3))
expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
q, k, v = (t.cuda().requires_grad_() for t in (q, k, v))
out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
torch.testing.assert_close(out.detach().cpu(), expected)
out.sum().backward()
assert q.grad is not None and q.grad.is_cuda

with sdpa_kernel(SDPBackend.MATH):
    math = F.scaled_dot_product_attention(q, k, v, is_causal=True)
torch.testing.assert_close(math, out)
backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
with sdpa_kernel(backends, set_priority=True):
    best = F.scaled_dot_product_attention(q, k, v, is_causal=True)
torch.testing.assert_close(best, out)

torch.backends.cuda.enable_flash_sdp(False)
assert not torch.backends.cuda.flash_sdp_enabled()
torch.backends.cuda.enable_flash_sdp(True)
assert torch.backends.cuda.math_sdp_enabled()
params = SDPAParams(q, k, v, None, 0.0, True, False)
assert can_use_flash_attention(params) in (True, False)

layer = torch.nn.MultiheadAttention(16, 4, batch_first=True).cuda().eval()
x = torch.randn(2, 5, 16, device="cuda")
with torch.inference_mode():
    fast, _ = layer(x, x, x, need_weights=False)
slow, weights = layer(x, x, x)
torch.testing.assert_close(fast, slow.detach())
assert weights.shape == (2, 5, 5)
