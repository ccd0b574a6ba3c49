"""Calls in integer dtypes, and of each attention kernel: what a GPU takes of them."""

import torch
from misuse import DEVICE
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
SPARSE = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr")


def attention(backend, dtype=torch.float32, head=8, dim=4, grad=False, **options):
    q = torch.ones(
        *([1] * (dim - 2)), 4, head, device=DEVICE, dtype=dtype, requires_grad=grad
    )

    def call():
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return F.scaled_dot_product_attention(q, q, q, **options)

    return call


def attention_cases():
    half = torch.float16
    mask = torch.ones(4, 4, device=DEVICE, dtype=torch.bool)
    for backend in BACKENDS:
        for name in ("float32", "float64", "float16", "bfloat16", "int64"):
            dtype = getattr(torch, name)
            yield f"sdpa {backend} torch.{name}", attention(backend, dtype)
        yield f"sdpa {backend} hd 260", attention(backend, half, 260)
        yield f"sdpa {backend} hd 7", attention(backend, half, 7)
        yield f"sdpa {backend} dim3", attention(backend, half, dim=3)
        yield f"sdpa {backend} mask", attention(backend, half, attn_mask=mask)


def products(a, b, v):
    return {
        "mm": lambda: a @ a,
        "addmm": lambda: torch.addmm(a, a, a),
        "bmm": lambda: b @ b,
        "baddbmm": lambda: torch.baddbmm(b, b, b),
        "mv": lambda: a @ v,
        "addmv": lambda: torch.addmv(v, a, v),
        "dot": lambda: v @ v,
        "vdot": lambda: torch.vdot(v, v),
        "addbmm": lambda: torch.addbmm(a, b, b),
        "addr": lambda: torch.addr(a, v, v),
        "linear": lambda: F.linear(a, a),
        "linear bias": lambda: F.linear(a, a, v),
        "einsum": lambda: torch.einsum("ij,jk->ik", a, a),
        "tensordot": lambda: torch.tensordot(a, a, 1),
        "matrix_power": lambda: torch.matrix_power(a, 3),
        "mm empty": lambda: a[:0] @ a,
        "mm inner 0": lambda: a[:, :0] @ a[:0],
    }


def sparse_products(layout, a, v):
    block = {"blocksize": (1, 1)} if layout == "sparse_bsr" else {}

    def s():
        return a.to_sparse(layout=getattr(torch, layout), **block)

    return {
        f"{layout} mm": lambda: torch.sparse.mm(s(), a),
        f"{layout} matmul": lambda: s() @ a,
        f"{layout} sp@sp": lambda: (lambda x: x @ x)(s()),
        f"{layout} mv": lambda: s() @ v,
        f"{layout} addmm": lambda: torch.addmm(a, s(), a),
        f"{layout} sampled": lambda: torch.sparse.sampled_addmm(s(), a, a),
    }


def others(dtype, a, v):
    def ones(*shape):
        return torch.ones(1, *shape, device=DEVICE, dtype=dtype)

    x, xx, xxx = ones(1, 8), ones(1, 8, 8), ones(1, 8, 8, 8)
    zeros = torch.zeros(2, 2, device=DEVICE, dtype=torch.long)
    return {
        "conv1d": lambda: F.conv1d(x, x),
        "conv2d": lambda: F.conv2d(xx, xx),
        "conv3d": lambda: F.conv3d(xxx, xxx),
        "convt2d": lambda: F.conv_transpose2d(xx, xx),
        "avg_pool1d": lambda: F.avg_pool1d(x, 2),
        "avg_pool2d": lambda: F.avg_pool2d(xx, 2),
        "avg_pool3d": lambda: F.avg_pool3d(xxx, 2),
        "max_pool1d": lambda: F.max_pool1d(x, 2),
        "max_pool2d": lambda: F.max_pool2d(xx, 2),
        "max_pool3d": lambda: F.max_pool3d(xxx, 2),
        "max_pool2d idx": lambda: F.max_pool2d(xx, 2, return_indices=True),
        "aap1": lambda: F.adaptive_avg_pool1d(x, 2),
        "aap2": lambda: F.adaptive_avg_pool2d(xx, 2),
        "aap3": lambda: F.adaptive_avg_pool3d(xxx, 2),
        "amp1": lambda: F.adaptive_max_pool1d(x, 2),
        "amp2": lambda: F.adaptive_max_pool2d(xx, 2),
        "amp3": lambda: F.adaptive_max_pool3d(xxx, 2),
        "softmax": lambda: F.softmax(a, 0),
        "cumsum": lambda: a.cumsum(0),
        "unfold": lambda: F.unfold(xx, 2),
        "fold": lambda: F.fold(ones(4, 16), 5, 2),
        "nearest": lambda: F.interpolate(xx, scale_factor=2),
        "bilinear": lambda: F.interpolate(xx, scale_factor=2, mode="bilinear"),
        "pad reflect": lambda: F.pad(xx, (1, 1, 1, 1), mode="reflect"),
        "pad replicate": lambda: F.pad(xx, (1, 1, 1, 1), mode="replicate"),
        "grid": lambda: F.grid_sample(
            xx, torch.zeros(1, 2, 2, 2, device=DEVICE, dtype=dtype)
        ),
        "histc": lambda: torch.histc(v, 2),
        "cdist": lambda: torch.cdist(a, a),
        "gelu": lambda: F.gelu(a),
        "embedding_bag": lambda: F.embedding_bag(zeros, a),
        "layer_norm": lambda: F.layer_norm(a, (2,)),
        "batch_norm": lambda: F.batch_norm(a, v, v),
    }


def integer_cases():
    for name in INTEGERS:
        dtype = getattr(torch, name)
        a, b, v = (torch.ones([2] * n, device=DEVICE, dtype=dtype) for n in (2, 3, 1))
        calls = products(a, b, v)
        for layout in SPARSE:
            calls |= sparse_products(layout, a, v)
        calls |= others(dtype, a, v)
        for label, call in calls.items():
            yield f"{label} {name}", call
