"""Calls with and without a deterministic implementation on a GPU."""

import torch
from misuse import DEVICE, longs
from strict_cases import attention
from torch.nn import functional as F


def ones(*shape, grad=False, **options):
    return torch.ones(shape, device=DEVICE, requires_grad=grad, **options)


def randn(*shape):
    return torch.randn(shape, device=DEVICE, requires_grad=True)


def zeros(*shape):
    return torch.zeros(shape, device=DEVICE, dtype=torch.long)


def eye():
    return torch.eye(3, device=DEVICE)


def pooled(xs):
    """One for each number of dimensions, the last three with gradients."""
    x, xx, xxx = xs
    return {
        "AvgPool3d": lambda: F.avg_pool3d(xxx, 2),
        "avgpool2 bw": lambda: F.avg_pool2d(xx, 2),
        "aap1": lambda: F.adaptive_avg_pool1d(x, 3),
        "aap2": lambda: F.adaptive_avg_pool2d(xx, 3),
        "aap2 1": lambda: F.adaptive_avg_pool2d(xx, 1),
        "aap3": lambda: F.adaptive_avg_pool3d(xxx, 3),
        "amp1": lambda: F.adaptive_max_pool1d(x, 3),
        "amp2": lambda: F.adaptive_max_pool2d(xx, 3),
        "amp3": lambda: F.adaptive_max_pool3d(xxx, 3),
        "mp2": lambda: F.max_pool2d(xx, 2),
        "mp3": lambda: F.max_pool3d(xxx, 2),
        "fmp2": lambda: F.fractional_max_pool2d(xx, 2, output_size=3),
        "fmp3": lambda: F.fractional_max_pool3d(xxx, 2, output_size=3),
    }


def resampled(xs):
    x, xx, xxx = xs
    modes = {"linear": x, "bilinear": xx, "bicubic": xx, "trilinear": xxx}
    modes |= {"nearest": xx, "area": xx}
    calls = {
        f"interp {mode}": lambda mode=mode, x=x: F.interpolate(
            x, scale_factor=2, mode=mode
        )
        for mode, x in modes.items()
    }
    calls["interp aa"] = lambda: F.interpolate(
        xx, scale_factor=0.5, mode="bilinear", antialias=True
    )
    for mode in ("reflect", "replicate"):
        for x in xs:
            sides = (1, 1) * (x.dim() - 2)
            calls[f"pad {mode} {x.dim()}"] = lambda m=mode, x=x, s=sides: F.pad(
                x, s, mode=m
            )
    calls["grid_sample 2"] = lambda: F.grid_sample(
        xx, torch.zeros(1, 2, 2, 2, device=DEVICE)
    )
    calls["grid_sample 3"] = lambda: F.grid_sample(
        xxx, torch.zeros(1, 2, 2, 2, 3, device=DEVICE)
    )
    return calls


def losses():
    i = longs(0, 1, 1)

    def log_probs():
        return randn(8, 1, 5).log_softmax(2)

    def bag(mode, **options):
        return F.embedding_bag(zeros(2, 2), randn(3, 3), mode=mode, **options)

    return {
        "nll": lambda: F.nll_loss(randn(3, 4), i),
        "ctc": lambda: F.ctc_loss(
            log_probs(), torch.tensor([[1, 2]], device=DEVICE), (8,), (2,)
        ),
        "ctc cudnn": lambda: F.ctc_loss(
            log_probs(), torch.tensor([1, 2], dtype=torch.int), (8,), (2,)
        ),
        "embag sum": lambda: bag("sum"),
        "embag mean": lambda: bag("mean"),
        "embag max": lambda: bag("max"),
        "embag psw": lambda: bag("sum", per_sample_weights=ones(2, 2, grad=True)),
        "multilabel": lambda: F.multilabel_margin_loss(randn(2, 3), zeros(2, 3)),
        "bce": lambda: F.binary_cross_entropy(
            torch.rand(3, device=DEVICE, requires_grad=True), ones(3)
        ),
        "embedding bw": lambda: F.embedding(i, randn(3, 3)),
        "embedding sgf": lambda: F.embedding(i, randn(3, 3), scale_grad_by_freq=True),
    }


def differentiated(xs):
    """Calls whose gradients are taken."""
    i, xx = longs(0, 1, 1), xs[1]
    flash = attention("FLASH_ATTENTION", torch.float16, grad=True)
    return {
        **pooled(xs),
        **resampled(xs),
        **losses(),
        "gather bw": lambda: ones(4, 4, grad=True).gather(0, zeros(2, 4)),
        "index_select bw": lambda: ones(4, 4, grad=True).index_select(0, i),
        "repeat_interleave bw": lambda: ones(3, grad=True).repeat_interleave(i),
        "take bw": lambda: ones(4, grad=True).take(i),
        "sdpa eff bw": attention("EFFICIENT_ATTENTION", grad=True),
        "sdpa flash bw": flash,
        "sdpa math bw": attention("MATH", grad=True),
        "cdist bw": lambda: torch.cdist(ones(3, 2, grad=True), ones(3, 2)),
        "pdist bw": lambda: F.pdist(randn(3, 2)),
        "trace bw": lambda: torch.trace(ones(3, 3, grad=True)),
        "unfold bw": lambda: F.unfold(xx, 2),
        "conv": lambda: F.conv2d(xx, ones(2, 2, 3, 3, grad=True)),
        "lstm": lambda: torch.nn.LSTM(3, 4, device=DEVICE)(ones(2, 2, 3))[0],
        "segment_reduce": lambda: torch.segment_reduce(
            ones(3, grad=True), "sum", lengths=longs(1, 2)
        ),
        "col2im": lambda: F.fold(ones(1, 4, 16, grad=True), 5, 2),
        "index bw": lambda: ones(4, grad=True)[i],
        "cummax": lambda: torch.cummax(ones(4, grad=True), 0)[0],
    }


def indexed():
    i = longs(0, 1, 1)

    def reduced(how):
        return lambda: ones(4).scatter_reduce(0, i, ones(3), how)

    return {
        "put acc": lambda: ones(4).put_(i, ones(3), accumulate=True),
        "put": lambda: ones(4).put_(i, ones(3)),
        "scatter_add 2d": lambda: ones(4, 4).scatter_add_(0, zeros(2, 4), ones(2, 4)),
        **{f"scatter_reduce {h}": reduced(h) for h in ("sum", "prod", "amax", "mean")},
        "scatter reduce add": lambda: ones(4).scatter_(0, i, ones(3), reduce="add"),
        "scatter tensor": lambda: ones(4, 4).scatter_(0, zeros(2, 4), ones(2, 4)),
        "index_add": lambda: ones(4, 4).index_add_(0, i, ones(3, 4)),
        "index_copy": lambda: ones(4, 4).index_copy_(0, i, ones(3, 4)),
        "index_reduce": lambda: ones(4, 4).index_reduce_(0, i, ones(3, 4), "prod"),
        "index_put acc": lambda: ones(4).index_put_((i,), ones(3), accumulate=True),
        "masked_scatter": lambda: ones(4).masked_scatter_(
            ones(4, dtype=torch.bool), ones(4)
        ),
    }


def called(xs):
    """Calls that are made as they stand."""
    i, (x, xx, xxx) = longs(0, 1, 1), xs
    indices = {"return_indices": True}
    return {
        **indexed(),
        "max_unpool1": lambda: F.max_unpool1d(*F.max_pool1d(x, 2, **indices), 2),
        "max_unpool2": lambda: F.max_unpool2d(*F.max_pool2d(xx, 2, **indices), 2),
        "max_unpool3": lambda: F.max_unpool3d(*F.max_pool3d(xxx, 2, **indices), 2),
        "nll2d": lambda: F.nll_loss(xx, zeros(1, 8, 8)),
        "ce2d none": lambda: F.cross_entropy(xx, zeros(1, 8, 8), reduction="none"),
        "histc": lambda: torch.histc(ones(4), 2),
        "histc int": lambda: torch.histc(ones(4, dtype=torch.int), 2),
        "histogram": lambda: torch.histogram(ones(4), 2),
        "bincount": lambda: torch.bincount(i),
        "bincount w": lambda: torch.bincount(i, ones(3)),
        "kthvalue": lambda: torch.kthvalue(ones(4), 1),
        "median": lambda: torch.median(ones(4)),
        "median dim": lambda: torch.median(ones(4), 0),
        "nanmedian dim": lambda: torch.nanmedian(ones(4), 0),
        "cumsum": lambda: torch.cumsum(ones(4), 0),
        "cumsum int": lambda: torch.cumsum(i, 0),
        "cumprod": lambda: torch.cumprod(ones(4), 0),
        "logcumsumexp": lambda: torch.logcumsumexp(ones(4), 0),
        "resize_": lambda: ones(4).resize_(8),
        "resize_ q": lambda: torch.quantize_per_tensor(
            ones(4), 1.0, 0, torch.quint8
        ).resize_(9),
        "sparse mm": lambda: torch.sparse.mm(eye().to_sparse(), eye()),
        "sparse sum bw": lambda: torch.sparse.sum(
            eye().to_sparse().requires_grad_(), 0
        ).backward(ones(3).to_sparse()),
        "sparse csr mm": lambda: eye().to_sparse_csr() @ eye(),
        "bmm sparse": lambda: torch.bmm(ones(1, 2, 2).to_sparse(), ones(1, 2, 2)),
        "coalesce": lambda: torch.sparse_coo_tensor(
            [[0, 0]], [1.0, 2.0], (2,), device=DEVICE
        ).coalesce(),
        "renorm": lambda: torch.renorm(ones(2, 2), 2, 0, 1),
        "fold": lambda: F.fold(ones(1, 4, 16), 5, 2),
        "unique": lambda: torch.unique(i),
        "lu_solve": lambda: torch.linalg.solve(eye(), ones(3)),
        "igamma": lambda: 0,
        "argmax": lambda: ones(4).argmax(),
        "mode": lambda: torch.mode(ones(4)),
        "topk": lambda: torch.topk(ones(4), 2),
        "roll": lambda: ones(4).roll(1),
    }


def determinism_cases():
    xs = [randn(1, 2, *[8] * dims) for dims in (1, 2, 3)]
    calls = called(xs) | {
        label: lambda call=call: call().sum().backward()
        for label, call in differentiated(xs).items()
    }

    def under(call, **options):
        torch.use_deterministic_algorithms(True, **options)
        try:
            return call()
        finally:
            torch.use_deterministic_algorithms(False)

    for label, call in calls.items():
        yield f"det {label}", lambda call=call: under(call)
        yield f"det warn {label}", lambda call=call: under(call, warn_only=True)
