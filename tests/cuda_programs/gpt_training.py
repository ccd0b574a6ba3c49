"""A small GPT, trained as nanoGPT's train.py does: compiled, in mixed precision, with
accumulated gradients, fused AdamW, batches from pinned memory, and samples at the end."""

import inspect
import math
import os
import tempfile
from contextlib import nullcontext

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

block_size, vocab, n_embd, n_head = 16, 17, 16, 2
data = (np.arange(2000) * 7 % vocab).astype(np.uint16)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd)
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            part.view(B, T, n_head, C // n_head).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(n_embd, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.block = Block()
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.ln_f(self.block(self.wte(idx) + self.wpe(pos)))
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, vocab), targets.view(-1))

    def configure_optimizers(self, device_type):
        params = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        fused_available = "fused" in inspect.signature(torch.optim.AdamW).parameters
        use_fused = fused_available and device_type == "cuda"
        return torch.optim.AdamW(groups, lr=1e-2, fused=use_fused)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, top_k):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -block_size:])
            logits = logits[:, -1, :]
            v, _ = torch.topk(logits, top_k)
            logits[logits < v[:, [-1]]] = -float("Inf")
            idx_next = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


def get_batch(device, rng):
    ix = rng.integers(0, len(data) - block_size, 4)
    rows = torch.from_numpy(data.astype(np.int64))
    x = torch.stack([rows[i : i + block_size] for i in ix])
    y = torch.stack([rows[i + 1 : i + 1 + block_size] for i in ix])
    if device == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def train(device, dtype=None, compile=False):
    torch.manual_seed(1337)
    rng = np.random.default_rng(0)
    model = raw_model = GPT().to(device)
    ctx = torch.amp.autocast(device, dtype=dtype) if dtype else nullcontext()
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    optimizer = model.configure_optimizers(device)
    if compile:
        model = torch.compile(model)
    losses = []
    for it in range(5):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * 0.5 * (1.0 + math.cos(math.pi * it / 5))
        for _ in range(2):
            X, Y = get_batch(device, rng)
            with ctx:
                _, loss = model(X, Y)
                loss = loss / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item() * 2)
    return losses, raw_model, optimizer


expected = train("cpu")[0]
losses, model, optimizer = train("cuda")
torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
compiled = train("cuda", compile=True)[0]
torch.testing.assert_close(compiled, expected, rtol=1e-5, atol=1e-5)
half = train("cuda", torch.bfloat16, compile=True)[0]
torch.testing.assert_close(half, expected, rtol=2e-2, atol=2e-2)
torch.testing.assert_close(
    train("cuda", torch.float16)[0], expected, rtol=2e-2, atol=2e-2
)

path = os.path.join(tempfile.mkdtemp(), "ckpt.pt")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
checkpoint = torch.load(path, map_location="cuda")
resumed = GPT().to("cuda")
resumed.load_state_dict(checkpoint["model"])
resumed.configure_optimizers("cuda").load_state_dict(checkpoint["optimizer"])
start = torch.zeros(1, 1, dtype=torch.long, device="cuda")
torch.manual_seed(1)
sample = model.generate(start, 20, top_k=5)
torch.manual_seed(1)
assert torch.equal(resumed.generate(start, 20, top_k=5), sample)
assert sample.shape == (1, 21) and torch.cuda.max_memory_allocated() > 0
