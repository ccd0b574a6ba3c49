"""Twelve networks of the kinds people train, as small as they can be.

Each takes a batch of `n` and returns a loss, so that all are trained alike.
"""

import torch
from torch import nn
from torch.nn import functional as F

NETWORKS = {}


def network(make_batch):
    """Adds a class under its name, with what makes its batches."""

    def add(cls):
        NETWORKS[cls.__name__] = cls, make_batch
        return cls

    return add


def numbers(*shape):
    return (torch.arange(torch.Size(shape).numel()) * 0.7123).sin().view(shape)


def words(n, length=6):
    return ((torch.arange(n * length) * 7) % 11).view(n, length)


@network(lambda n: (numbers(n, 8), numbers(n, 2)))
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 2))
        )

    def forward(self, x, y):
        return F.mse_loss(self.layers(x), y)


class Block(nn.Module):
    """Attention and a feed-forward part, each added to what comes in."""

    def __init__(self, width=8, heads=2, dropout=0.0, causal=False):
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def attend(self, x, cache=None):
        n, length, width = x.shape
        parts = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        dropout = self.dropout if self.training else 0.0
        causal = True if self.causal and length > 1 else False
        y = F.scaled_dot_product_attention(q, k, v, None, dropout, causal)
        return self.out(y.transpose(1, 2).reshape(n, length, width)), (k, v)

    def forward(self, x, cache=None):
        y, cache = self.attend(self.norm1(x), cache)
        x = x + F.dropout(y, self.dropout, self.training)
        return x + self.mlp(self.norm2(x)), cache


@network(lambda n: (numbers(n, 5, 8), numbers(n, 8)))
class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(dropout=0.2)

    def forward(self, x, y):
        return F.mse_loss(self.block(x)[0].mean(1), y)


@network(lambda n: (numbers(n, 3, 8, 8), torch.arange(n) % 4))
class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2)
        self.out = nn.Linear(8, 4)

    def forward(self, x, y):
        x = F.max_pool2d(self.norm(self.conv1(x)).relu(), 2)
        return F.cross_entropy(self.out(self.conv2(x).relu().mean((2, 3))), y)


@network(lambda n: (numbers(n, 5, 4), numbers(n, 3)))
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x, y):
        return F.mse_loss(self.out(self.lstm(x)[0][:, -1]), y)


@network(lambda n: (words(n),))
class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.places = nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(Block(causal=True) for _ in range(2))
        self.out = nn.Linear(8, 11, bias=False)

    def logits(self, tokens, caches=None, start=0):
        places = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places)
        kept = []
        for index, block in enumerate(self.blocks):
            x, cache = block(x, None if caches is None else caches[index])
            kept.append(cache)
        return self.out(x), kept

    def forward(self, tokens):
        logits, _ = self.logits(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def generate(step, tokens, count):
    """Samples words one at a time; `step` is Gpt.logits(), compiled or not."""
    start, caches, now = 0, None, tokens
    for _ in range(count):
        logits, caches = step(now, caches, start)
        start += now.shape[1]
        now = torch.multinomial(logits[:, -1].softmax(-1), 1)
        tokens = torch.cat([tokens, now], 1)
    return tokens


@network(lambda n: (numbers(n, 8), numbers(n, 8)))
class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.experts = nn.Parameter(numbers(4, 8, 8) / 4)

    def forward(self, x, y):
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        each = torch.einsum("nd,nkdo->nko", x, self.experts[chosen])
        return F.mse_loss((each * weights[..., None]).sum(1), y)


@network(lambda n: (numbers(n, 2, 8, 8), numbers(n, 1, 8, 8)))
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.norm = nn.GroupNorm(2, 4)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x, y):
        first = self.first(x).relu()
        up = self.norm(self.up(self.down(first).relu()))
        return F.mse_loss(self.last(torch.cat([first, up], 1)), y)


@network(lambda n: (words(n),))
class Llama(nn.Module):
    """Rotary positions, grouped heads, RMS norms and a gated feed-forward part."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.norms = nn.ModuleList(nn.RMSNorm(8, 1e-6) for _ in range(3))
        self.q, self.kv = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.o = nn.Linear(8, 8, bias=False)
        self.gate, self.up = nn.Linear(8, 16), nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        turns = 10000.0 ** (-torch.arange(0, 2, 2) / 2)
        self.register_buffer("turns", turns, persistent=False)

    def rotate(self, x):
        places = torch.arange(x.shape[2], device=x.device).float()
        angles = torch.outer(places, self.turns)
        cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, tokens):
        x = self.words(tokens)
        n, length, _ = x.shape
        h = self.norms[0](x)
        q = self.q(h).view(n, length, 4, 2).transpose(1, 2)
        k, v = self.kv(h).view(n, length, 2, 2, 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True
        )
        x = x + self.o(y.transpose(1, 2).reshape(n, length, 8))
        h = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        logits = self.norms[2](x) @ self.words.weight.t()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


@network(lambda n: (words(n), torch.arange(n * 6).view(n, 6) % 5 != 0))
class Bert(nn.Module):
    """Padding is masked out of the attention, and some words are to be guessed."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.out = nn.Linear(8, 11)

    def forward(self, tokens, keep):
        x = self.layer(self.words(tokens), src_key_padding_mask=~keep)
        losses = F.cross_entropy(self.out(x).transpose(1, 2), tokens, reduction="none")
        return (losses * keep).sum() / keep.sum()


@network(lambda n: (numbers(n, 3, 8, 8), torch.arange(n) % 4))
class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(numbers(1, 1, 8))
        self.places = nn.Parameter(numbers(1, 5, 8))
        self.block = Block()
        self.out = nn.Linear(8, 4)

    def forward(self, x, y):
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], 1)
        x, _ = self.block(tokens + self.places)
        return F.cross_entropy(self.out(x[:, 0]), y)


@network(lambda n: (numbers(n, 4, 8, 8), torch.arange(n) * 10))
class DiffusionBlock(nn.Module):
    """Learns to tell noise, which it draws by itself, from the picture."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
        self.conv1, self.conv2 = (nn.Conv2d(4, 4, 3, padding=1) for _ in "12")
        self.time = nn.Linear(4, 4)

    def forward(self, x, time):
        noise = torch.randn_like(x)
        angles = time[:, None] * torch.tensor([1.0, 0.01], device=x.device)
        moment = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        share = (time / 100).view(-1, 1, 1, 1)
        noisy = x * (1 - share) + noise * share
        h = self.conv1(F.silu(self.norm(noisy))) + moment[:, :, None, None]
        return F.mse_loss(noisy + self.conv2(F.silu(h)), noise)


@network(lambda n: (words(n), words(n).flip(1)))
class Embedding(nn.Module):
    """Puts texts that belong together close to each other."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(11, 8, mode="mean")
        self.out = nn.Linear(8, 8)

    def forward(self, a, b):
        a, b = (F.normalize(self.out(self.bag(x)), dim=-1) for x in (a, b))
        return F.cross_entropy(a @ b.t() * 5, torch.arange(len(a), device=a.device))
