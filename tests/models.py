"""Small nets of the usual kinds, and a training loop for any device."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F

# --- images -------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            Residual(8, 8, stride=1),
            Residual(8, 16, stride=2),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(16, 10),
        )

    def forward(self, x):
        return self.layers(x)


class Smooth(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, groups=2),
            nn.GroupNorm(2, outputs),
            nn.SiLU(),
        )


class UNet(nn.Module):
    """Halves the picture twice and doubles it again; a class for each pixel."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([Smooth(2, 8), Smooth(8, 16)])
        self.bottom = Smooth(16, 16)
        self.grow = nn.ModuleList(
            [
                nn.ConvTranspose2d(16, 16, 2, stride=2),
                nn.ConvTranspose2d(16, 8, 2, stride=2),
            ]
        )
        self.up = nn.ModuleList([Smooth(32, 16), Smooth(16, 8)])
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        skipped = []
        for layer in self.down:
            x = layer(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for grow, layer in zip(self.grow, self.up, strict=True):
            x = layer(torch.cat([grow(x), skipped.pop()], dim=1))
        return self.head(x)


def pictures():
    return torch.rand(4, 3, 8, 8), torch.randint(0, 10, (4,))


def segments():
    return torch.rand(2, 2, 8, 8), torch.randint(0, 4, (2, 8, 8))


# --- words --------------------------------------------------------------------

WORDS, LENGTH = 50, 8


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache):
        """With a cache, a list, `x` is what follows the words seen before."""
        parts = self.project(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if cache is not None:
            if cache:
                key = torch.cat([cache[0], key], dim=2)
                value = torch.cat([cache[1], value], dim=2)
            cache[:] = key, value
        # One word may look at all that came before it.
        x = F.scaled_dot_product_attention(
            query, key, value, is_causal=query.shape[2] > 1
        )
        return self.out(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads)
        self.think = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
            nn.Dropout(0.1),
        )

    def forward(self, x, cache):
        x = x + self.attention(self.norms[0](x), cache)
        return x + self.think(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(4 * LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, caches=None):
        if caches is None:
            caches = [None] * len(self.blocks)
        seen = caches[0][0].shape[2] if caches[0] else 0
        places = torch.arange(seen, seen + tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache)
        return self.head(self.norm(x)).transpose(1, 2)

    @torch.no_grad()
    def generate(self, tokens, count, cached):
        """Samples `count` words more. Returns all words and the last scores."""
        caches = [[] for _ in self.blocks] if cached else None
        fresh = tokens
        for _ in range(count):
            scores = self(fresh if cached else tokens, caches)[:, :, -1]
            best = scores.topk(10).values[:, -1:]
            likely = scores.masked_fill(scores < best, -torch.inf).softmax(-1)
            fresh = torch.multinomial(likely, 1)
            tokens = torch.cat([tokens, fresh], dim=1)
        return tokens, scores


class Encoder(nn.Module):
    """PyTorch's own layers."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, WORDS)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(
            tokens.shape[1], device=tokens.device, dtype=self.head.weight.dtype
        )
        x = self.layers(self.words(tokens), mask=mask, is_causal=True)
        return self.head(x).transpose(1, 2)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, dropout=0.1, bidirectional=True)
        self.gru = nn.GRU(48, 16)
        self.head = nn.Linear(16, WORDS)

    def forward(self, tokens):
        x, _ = self.lstm(self.words(tokens.t()))
        x, _ = self.gru(x)
        return self.head(x).permute(1, 2, 0)


class Experts(nn.Module):
    """Sends each word to the two experts that its gate likes best."""

    def __init__(self, width=16, count=4):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            for _ in range(count)
        )
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        x = self.words(tokens).flatten(0, 1)
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows, places = (chosen == index).nonzero(as_tuple=True)
            if len(rows):  # as many as there happen to be
                found = expert(x[rows]) * weights[rows, places, None]
                mixed.index_add_(0, rows, found)
        x = torch.where((chosen == 0).any(-1, keepdim=True), mixed, x + mixed)
        return self.head(x).unflatten(0, tokens.shape).transpose(1, 2)


def words():
    shape = (4, LENGTH)
    return torch.randint(0, WORDS, shape), torch.randint(0, WORDS, shape)


# --- training -----------------------------------------------------------------


@dataclass
class Training:
    model: type[nn.Module]
    batch: Callable
    optimizer: type[torch.optim.Optimizer]
    options: dict = field(default_factory=dict)
    dtype: torch.dtype = torch.float32

    def make(self):
        """A new model and its batch, the same in every process."""
        torch.manual_seed(0)
        model, (x, y) = self.model().to(self.dtype), self.batch()
        return model, (x.to(self.dtype) if x.is_floating_point() else x, y)

    def run(self, device, steps):
        model, batch = self.make()
        return train(model, batch, self.make_optimizer, device, steps)

    def make_optimizer(self, parameters):
        # The CPU's default is the loop over parameters, an accelerator's foreach.
        return self.optimizer(parameters, **{"foreach": False, **self.options})


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
FUSED = {"fused": True, "foreach": None}

TRAININGS = {
    "resnet": Training(ResNet, pictures, SGD, {"lr": 0.1, "momentum": 0.9}),
    "unet": Training(UNet, segments, ADAMW, {"lr": 1e-2, **FUSED}),
    "unet in bf16": Training(UNet, segments, SGD, {"lr": 0.1}, torch.bfloat16),
    "gpt": Training(Gpt, words, ADAMW, {"lr": 1e-2, "foreach": True}),
    "encoder": Training(Encoder, words, ADAMW, {"lr": 1e-2}),
    "encoder in bf16": Training(Encoder, words, ADAM, {"lr": 1e-2}, torch.bfloat16),
    "lstm": Training(Recurrent, words, ADAM, {"lr": 1e-2, "amsgrad": True}),
    "experts": Training(Experts, words, SGD, {"lr": 0.5, "momentum": 0.9}),
}


def train(model, batch, make_optimizer, device, steps):
    """The loss of each step, and what is left in the model and its gradients."""
    model = copy.deepcopy(model).to(device)
    optimizer = make_optimizer(model.parameters())
    x, y = (part.to(device) for part in batch)
    torch.manual_seed(1)  # of all devices: dropout draws the same
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    grads = {name: p.grad.cpu() for name, p in model.named_parameters()}
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    return losses, grads, state
