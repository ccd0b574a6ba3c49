"""Memory of small models over three training steps: after each phase, and its peaks.

One record was made without the workspaces of the GPU's matrix library; "with
workspace" are cases of a device that poses as that GPU. Models with convolutions or
recurrent cells are not here: those libraries have more of them.
"""

import contextlib
import functools
import gc

import torch
import torch.nn.functional as F
from observer import NAME, case
from torch import nn
from torch.utils.checkpoint import checkpoint


class Blocks(nn.Module):
    """A head, blocks that can be checkpointed one by one, and a tail."""

    def __init__(self, head, blocks, tail):
        super().__init__()
        self.head, self.blocks, self.tail = head, nn.ModuleList(blocks), tail

    def forward(self, x, checkpointed):
        x = self.head(x)
        for block in self.blocks:
            if checkpointed:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.tail(x)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


class Attention(nn.Module):
    def __init__(self, width, heads, fused, causal):
        super().__init__()
        self.heads, self.fused, self.causal = heads, fused, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        depth = width // self.heads
        q, k, v = (
            self.qkv(x).view(batch, length, 3, self.heads, depth).permute(2, 0, 3, 1, 4)
        )
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-1, -2) * depth**-0.5
            if self.causal:
                ones = torch.ones(length, length, dtype=torch.bool, device=x.device)
                scores = scores.masked_fill(ones.triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Embed(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(length, width))

    def forward(self, ids):
        return self.token(ids) + self.position


class Tables(nn.Module):
    """Sparse features, each with its table, and a dense part."""

    def __init__(self, sizes, width, dense):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, width) for n in sizes)
        self.dense = nn.Linear(dense, width)

    def forward(self, x):
        ids, dense = x
        columns = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return torch.cat([*columns, self.dense(dense)], 1)


def transformer_block(width, fused, causal):
    return nn.Sequential(
        Residual(nn.LayerNorm(width), Attention(width, 4, fused, causal)),
        Residual(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        ),
    )


def classify(y, target):
    return F.cross_entropy(y.flatten(0, -2), target.flatten())


def mlp():
    layers = [nn.Sequential(nn.ReLU(), nn.Linear(1024, 1024)) for _ in range(3)]
    model = Blocks(nn.Linear(512, 1024), layers, nn.Linear(1024, 10))
    return model, torch.randn(256, 512), torch.randint(10, (256,)), classify


def encoder():
    model = Blocks(
        Embed(1000, 64, 256),
        [transformer_block(256, fused=True, causal=False) for _ in range(3)],
        nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 1000)),
    )
    ids = torch.randint(1000, (2, 8, 64))
    return model, ids[0].clone(), ids[1].clone(), classify


def decoder():
    model = Blocks(
        Embed(2000, 128, 128),
        [transformer_block(128, fused=False, causal=True) for _ in range(4)],
        nn.Sequential(
            nn.LayerNorm(128), nn.Dropout(0.1), nn.Linear(128, 2000, bias=False)
        ),
    )
    model.tail[2].weight = model.head.token.weight
    ids = torch.randint(2000, (2, 4, 128))
    return model, ids[0].clone(), ids[1].clone(), classify


def recommender():
    sizes = 10000, 5000, 1000, 100
    model = Blocks(
        Tables(sizes, 32, 13),
        [nn.Sequential(nn.Linear(160, 160), nn.ReLU()) for _ in range(3)],
        nn.Linear(160, 1),
    )
    ids = torch.stack([torch.randint(n, (512,)) for n in sizes], 1)
    inputs = ids, torch.randn(512, 13)

    def loss(y, target):
        return F.binary_cross_entropy_with_logits(y.float(), target)

    return model, inputs, torch.rand(512, 1), loss


def moved(value, device):
    if isinstance(value, tuple):
        return tuple(moved(part, device) for part in value)
    return value.to(device)


def train(o, make, autocast, checkpointed, optimizer, **options):
    """Three steps of training; each outcome is a number of bytes."""
    torch.manual_seed(0)
    model, x, target, loss_function = make()

    def allocated():
        o.sync()
        return o.m.memory_allocated()

    def peaks(step, phase):
        """The phase is over: what is left of it, and the most there was."""
        yield f"{step} after {phase}", allocated
        yield f"{step} peak of {phase}", o.m.max_memory_allocated
        yield f"{step} peak of {phase}, reserved", o.m.max_memory_reserved
        o.m.reset_peak_memory_stats()

    model.to(o.device)
    yield "model", allocated
    x, target = moved(x, o.device), target.to(o.device)
    yield "inputs", allocated
    optimizer = optimizer(model.parameters(), lr=1e-3, **options)
    for step in range(3):
        o.m.reset_peak_memory_stats()
        with autocast():
            loss = loss_function(model(x, checkpointed), target)
        yield from peaks(step, "forward")
        loss.backward()
        yield from peaks(step, "backward")
        optimizer.step()
        yield from peaks(step, "step")
        optimizer.zero_grad(set_to_none=True)
        assert torch.isfinite(loss)
        del loss
        yield f"{step} after zero_grad", allocated
    del model, optimizer, x, target
    gc.collect()
    yield "deleted", allocated


def bfloat16():
    return torch.autocast(NAME, dtype=torch.bfloat16)


OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": functools.partial(torch.optim.SGD, momentum=0.9),
}
MODELS = {make.__name__: make for make in (mlp, encoder, decoder, recommender)}


def put(section, name, optimizer, how, profile=None):
    """A case whose name says the model, its dtype, and whether activations are
    computed again."""
    model, dtype, *rest = name.split("_")
    autocast = bfloat16 if dtype == "bf16" else contextlib.nullcontext

    environment = {"OPENREG_DEVICE_PROFILE": profile} if profile else {}

    @case(section, name, environment=environment)
    def _(o):
        return train(
            o,
            MODELS[model],
            autocast,
            "checkpoint" in rest,
            OPTIMIZERS[optimizer],
            **{how: True},
        )


for name in (
    "mlp_bf16",
    "mlp_bf16_checkpoint",
    "encoder_fp32",
    "encoder_fp32_checkpoint",
    "encoder_bf16",
    "decoder_fp32",
    "decoder_bf16",
    "recommender_fp32_checkpoint",
    "recommender_bf16",
    "recommender_bf16_checkpoint",
):
    put("models", name, "adamw", "foreach")

for name, optimizer, how in (
    ("mlp_fp32", "adamw", "fused"),
    ("mlp_fp32_sgd", "sgd", "fused"),
    ("mlp_bf16", "adam", "foreach"),
    ("encoder_fp32", "sgd", "foreach"),
    ("encoder_fp32_checkpoint", "adamw", "foreach"),
    ("encoder_bf16", "adam", "fused"),
    ("decoder_fp32", "adam", "foreach"),
    ("decoder_fp32_checkpoint", "adamw", "foreach"),
    ("decoder_bf16", "sgd", "fused"),
    ("recommender_fp32", "adamw", "foreach"),
    ("recommender_bf16", "adam", "fused"),
):
    put("models_with_workspace", name, optimizer, how, profile="h200")
