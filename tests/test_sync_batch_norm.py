"""nn.SyncBatchNorm: its operators, which the CPU has not, and ranks that share them."""

import pytest
import torch

TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
}
EPS = 1e-5


def in_double(x, weight, bias, grad):
    """BatchNorm over the whole batch: output, running statistics, gradients."""
    x, weight, bias = (t.detach().double().requires_grad_() for t in (x, weight, bias))
    running = torch.zeros(x.size(1)).double(), torch.ones(x.size(1)).double()
    y = torch.nn.functional.batch_norm(x, *running, weight, bias, True, 0.1, EPS)
    y.backward(grad.double())
    return y.detach(), *running, x.grad, weight.grad, bias.grad


def in_parts(x, weight, bias, grad, at=2):
    """The same with the operators, for a batch in two parts."""
    x, grad = (t.tensor_split([at]) for t in (x, grad))
    running = torch.zeros_like(weight), torch.ones_like(weight)
    stats = [torch.stack(s) for s in zip(*(torch.batch_norm_stats(p, EPS) for p in x))]
    counts = [p.numel() // p.size(1) for p in x]
    counts = torch.tensor(counts, device=weight.device)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        x[0], *stats, *running, 0.1, EPS, counts.to(weight.dtype)
    )
    y = [torch.batch_norm_elemt(p, weight, bias, mean, invstd, EPS) for p in x]
    assert all(p.stride() == q.stride() for p, q in zip(x, y))
    sums = [
        torch.batch_norm_backward_reduce(g, p, mean, invstd, weight, True, True, True)
        for g, p in zip(grad, x)
    ]
    dy, dy_xmu, grad_weight, grad_bias = (a + b for a, b in zip(*sums))
    grad_input = [
        torch.batch_norm_backward_elemt(
            g, p, mean, invstd, weight, dy, dy_xmu, counts.int()
        )
        for g, p in zip(grad, x)
    ]
    return torch.cat(y), *running, torch.cat(grad_input), grad_weight, grad_bias


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "shape, memory_format",
    [
        ((6, 5), torch.contiguous_format),
        ((6, 5, 4, 3), torch.contiguous_format),
        ((6, 5, 4, 3), torch.channels_last),
        ((6, 5, 2, 3, 2), torch.channels_last_3d),
    ],
)
def test_parts_of_a_batch_make_the_whole(dtype, shape, memory_format):
    torch.manual_seed(0)
    x, grad = (
        (torch.randn(shape) + 1).to(dtype).to(memory_format=memory_format)
        for _ in range(2)
    )
    kept = torch.promote_types(dtype, torch.float32)  # as under autocast
    weight, bias = torch.randn(5, dtype=kept), torch.randn(5, dtype=kept)
    expected = in_double(x, weight, bias, grad)
    found = in_parts(*(t.to("openreg") for t in (x, weight, bias, grad)))
    within = TOLERANCE[dtype]
    for here, there in zip(found, expected, strict=True):
        torch.testing.assert_close(
            here.cpu().double(), there, atol=5 * within, rtol=within
        )
    assert found[0].dtype == found[3].dtype == dtype
    assert found[4].dtype == kept


def test_operators_check_before_they_launch():
    x = torch.randn(2, 3, 4, device="openreg")
    ones = torch.ones(3, device="openreg")
    with pytest.raises(RuntimeError, match=r"at least 2 dimensions, but got 1"):
        torch.batch_norm_stats(ones, EPS)
    with pytest.raises(RuntimeError, match="input with elements"):
        torch.batch_norm_stats(x[:0], EPS)
    with pytest.raises(RuntimeError, match="floating point dtype, but got Long"):
        torch.batch_norm_stats(x.long(), EPS)
    with pytest.raises(RuntimeError, match=r"mean of shape \[3\].*but got \[2\]"):
        torch.batch_norm_elemt(x, None, None, ones[:2], ones, EPS)
    with pytest.raises(RuntimeError, match="one device.*openreg:0.*weight on cpu"):
        torch.batch_norm_elemt(x, ones.cpu(), None, ones, ones, EPS)
    with pytest.raises(RuntimeError, match=r"counts of shape|mean of shape \[2, 3\]"):
        torch.batch_norm_gather_stats_with_counts(
            x, ones[None], ones[None], None, None, 0.1, EPS, ones[:2]
        )


def test_what_is_not_asked_for_is_not_made():
    x = torch.randn(4, 3, device="openreg")
    mean, invstd = torch.batch_norm_stats(x, EPS)
    reduce = torch.batch_norm_backward_reduce
    assert reduce(x, x, mean, invstd, None, False, True, True) == (None,) * 4
    sums = reduce(x, x, mean, invstd, mean, True, False, True)
    assert [s is None for s in sums] == [False, False, True, False]
    torch.testing.assert_close(sums[3].cpu(), x.sum(0).cpu())
    gathered = torch.batch_norm_gather_stats(
        x, mean[None], invstd[None], None, None, 0.1, EPS, 4
    )
    torch.testing.assert_close(gathered[0].cpu(), mean.cpu())
    out = torch.empty(0, device="openreg")
    torch.batch_norm_elemt(x, None, None, mean, invstd, EPS, out=out)
    torch.testing.assert_close(out.cpu(), ((x - mean) * invstd).cpu())


TRAINING = """
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(),
                         nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4, momentum=None))

def train(model, place, autocast, begin, end, layout):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(5):
        x = torch.randn(8, 3, 7, 6, generator=torch.Generator().manual_seed(step))
        x = x[begin:end].to(place).to(memory_format=layout)
        with torch.autocast(place.type, torch.bfloat16, enabled=autocast):
            y = model(x)
        # A sum over all: DDP averages over ranks, so it is multiplied by their number.
        loss = (y.float() ** 3).sum() / 100
        (loss * dist.get_world_size() if isinstance(model, DDP) else loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [t.double().cpu() for t in model.state_dict().values()]
"""


@pytest.mark.parametrize(
    "bounds, layout, autocast",
    [
        ((0, 6, 8), "channels_last", False),  # uneven
        pytest.param((0, 4, 8), "contiguous_format", False, marks=pytest.mark.slow),
        pytest.param((0, 8, 8), "contiguous_format", False, marks=pytest.mark.slow),
        pytest.param((0, 3, 8), "channels_last", True, marks=pytest.mark.slow),
        pytest.param(
            (0, 2, 2, 5, 8), "contiguous_format", False, marks=pytest.mark.slow
        ),  # one has nothing
    ],
)
def test_ranks_train_as_one_with_the_whole_batch(ranks, bounds, layout, autocast):
    within = 0.05 if autocast else 1e-4
    ranks(
        f"""
    autocast, layout, bounds = {autocast}, torch.{layout}, {bounds}
    model = nn.SyncBatchNorm.convert_sync_batchnorm(make()).to(device)
    model = DDP(model, device_ids=[device], forward_sync_buffers=False)
    losses, found = train(
        model, device, autocast, bounds[rank], bounds[rank + 1], layout)
    whole, expected = train(
        make(), torch.device("cpu"), autocast, 0, 8, torch.contiguous_format)
    sums = torch.tensor(losses, device=device)
    dist.all_reduce(sums)
    torch.testing.assert_close(sums.cpu(), torch.tensor(whole), rtol={within}, atol={within})
    for here, there in zip(found, expected, strict=True):
        torch.testing.assert_close(here, there, rtol={within}, atol={within})
    """,
        len(bounds) - 1,
        setup=TRAINING,
        OPENREG_DEVICE_COUNT=str(len(bounds) - 1),
    )


def test_an_empty_batch_of_another_dtype_than_float32_is_reported_by_both_ranks(ranks):
    # PyTorch gathers float32 statistics, and zeros of the input's dtype if it is empty.
    # NCCL does not compare them and mixes up the bytes.
    ranks(
        """
    norm = torch.nn.SyncBatchNorm(3).to(device)
    x = torch.ones(2 * (1 - rank), 3, 4, dtype=torch.half, device=device)
    try:
        norm(x)
        torch.openreg.synchronize()
    except RuntimeError as error:
        for words in ("rank 0", "rank 1", "all_gather(float32", "all_gather(float16"):
            assert words in str(error), error
    else:
        raise AssertionError("different dtypes were gathered")
    """,
        OPENREG_DEVICE_COUNT="2",
    )
