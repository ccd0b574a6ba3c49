"""Copy-on-write clones: who writes gets memory of its own first, who reads does not."""

import gc

import pytest
import torch
from torch.nn import functional as F

is_shared = torch._C._is_cow_tensor


def numbers(device="openreg"):
    return torch.arange(1.0, 9.0).view(2, 4).to(device)


@pytest.fixture
def clones():
    x = numbers()
    return x, torch._lazy_clone(x)


# --- writes -------------------------------------------------------------------


def index(x, *places):
    return torch.tensor(places, device=x.device)


def with_stats(x):
    """Batch norm changes its running mean, which its schema does not say."""
    batch = torch.arange(12.0, device=x.device).view(3, 4)
    F.batch_norm(batch, x[0], torch.ones_like(x[0]), training=True)


def as_values(x):
    places = torch.tensor([[0, 2]], device=x.device)
    sparse = torch.sparse_coo_tensor(places, x, (3, 4), check_invariants=True)
    sparse._coalesced_(True).sin_()


def by_optimizer(x, **options):
    parameter = torch.nn.Parameter(x)
    parameter.grad = torch.ones_like(x)
    torch.optim.SGD([parameter], 0.5, **options).step()


def in_a_stream(x):
    if x.device.type == "cpu":
        return x.mul_(3)
    side = torch.openreg.Stream()
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        x.mul_(3)
    torch.openreg.current_stream().wait_stream(side)


def bump(x):
    with torch.library._scoped_library("openreg_tests", "FRAGMENT") as library:
        library.define("bump(Tensor(a!) x) -> ()")
        library.impl("bump", lambda x: None if x.add_(1) is x else None, "CPU")
        torch.ops.openreg_tests.bump(x)


def set_first(x):
    x[0] = 7


def ones(x, **options):
    return torch.ones(2, 4, **options)


WRITES = {
    "in place": lambda x: x.add_(1),
    "in place, cast": lambda x: x.add_(torch.ones(2, 4, dtype=torch.int8).to(x.device)),
    "in place, no iterator": lambda x: x.cumsum_(0),
    "out": lambda x: torch.add(ones(x).to(x.device), 2, out=x),
    "out, other strides": lambda x: torch.mm(
        x.t().clone(), x.clone(), out=x.resize_(4, 4)
    ),
    "out, waiting": lambda x: torch.take(x.clone(), x.long() - 1, out=x),
    "out, resized": lambda x: torch.cat([x.clone()] * 2, out=x.resize_(0)),
    "copy on the device": lambda x: x.copy_(ones(x).to(x.device)),
    "copy with a cast": lambda x: x.copy_(ones(x, dtype=torch.int64).to(x.device)),
    "copy from the host": lambda x: x.copy_(ones(x)),
    "copy from pinned memory": lambda x: x.copy_(ones(x).pin_memory(), True),
    "copy from another device": lambda x: x.copy_(ones(x).to("openreg:1")),
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_(),
    "abs_": lambda x: x.neg_().abs_(),
    "foreach": lambda x: torch._foreach_mul_([x], 2),
    "optimizer": by_optimizer,
    "fused optimizer": lambda x: by_optimizer(x, fused=True),
    "random": lambda x: x.uniform_(),
    "random, with numbers": lambda x: x.bernoulli_(0.5),
    "index_put_": lambda x: x.index_put_((index(x, 1),), index(x, 5).float()),
    "index_fill_": lambda x: x.index_fill_(0, index(x, 1), 9),
    "scatter_": lambda x: x.scatter_(0, index(x, 0, 0, 0, 0).view(1, 4), 4.0),
    "item assignment": set_first,
    "custom operator": bump,
    "view": lambda x: x[1:].view(-1)[1:].mul_(2),
    "resize_": lambda x: x.resize_(3, 4)[2:].fill_(1),
    "another stream": in_a_stream,
    "storage": lambda x: x.untyped_storage().fill_(1),
    "values of a sparse tensor": as_values,
    "running mean": with_stats,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("writer", ["clone", "original"])
def test_a_writer_gets_memory_of_its_own(write, writer, clones):
    changed, kept = clones if writer == "original" else reversed(clones)
    expected = numbers("cpu")
    for device, x in (("cpu", expected), ("openreg", changed)):
        torch.manual_seed(3)
        write(x)
    assert kept.tolist() == numbers("cpu").tolist()
    assert torch.equal(changed.cpu(), expected)
    assert not is_shared(changed)
    assert is_shared(kept)


def test_the_last_one_keeps_the_memory(clones):
    x, y = clones
    y.add_(1)
    before = torch.openreg.memory_allocated()
    x.add_(1)
    assert torch.openreg.memory_allocated() == before
    assert not is_shared(x)
    assert torch.equal(x, y)


def test_a_view_shares_with_its_base_and_nobody_else(clones):
    x, y = clones
    row = y[1]
    row.zero_()
    assert y.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0]]
    y.add_(1)
    assert row.tolist() == [1, 1, 1, 1]
    assert torch.equal(x.cpu(), numbers("cpu"))


def test_a_clone_of_a_clone_is_one_of_three(clones):
    x, y = clones
    z = torch._lazy_clone(y)
    y.fill_(0)
    z.fill_(1)
    assert torch.equal(x.cpu(), numbers("cpu"))
    assert (y.sum().item(), z.sum().item()) == (0, 8)


def test_a_clone_of_another_device_than_the_current_one_stays_there():
    x = numbers("openreg:1")
    y = torch._lazy_clone(x)
    before = [torch.openreg.memory_allocated(device) for device in (0, 1)]
    y.add_(1)
    after = [torch.openreg.memory_allocated(device) for device in (0, 1)]
    assert after == [before[0], before[1] + 512]
    assert torch.equal(y.cpu() - 1, x.cpu())


def test_a_copy_that_finds_no_memory_leaves_both_whole(run_python):
    code = """
import gc, torch
x = torch.ones(40 << 20, dtype=torch.uint8, device="openreg")
y = torch._lazy_clone(x)
for _ in range(2):
    try:
        y.add_(1)
    except torch.OutOfMemoryError:
        print("no memory", torch._C._is_cow_tensor(y), end="; ")
del x
gc.collect()
y.add_(1)
print(y.sum().item() == 2 * y.numel(), torch.openreg.memory_allocated() >> 20)
"""
    told = run_python(code, OPENREG_DEVICE_MEMORY="64MiB")
    assert told == "no memory True; no memory True; True 40"


def test_memory_that_is_freed_while_a_side_stream_copies_it_is_not_reused(hold):
    side = torch.openreg.Stream()
    x = numbers()
    y = torch._lazy_clone(x)
    torch.openreg.synchronize()
    gate = hold(side)
    with torch.openreg.stream(side):
        y.add_(1)
    del x
    others = [torch.zeros(2, 4, device="openreg") for _ in range(8)]
    torch.openreg.current_stream().synchronize()
    gate.open()
    torch.openreg.synchronize()
    assert torch.equal(y.cpu() - 1, numbers("cpu"))
    del others


# --- reads --------------------------------------------------------------------

READS = {
    "operator": lambda x: x + 1,
    "product": lambda x: x @ x.t(),
    "sum": lambda x: x.sum(),
    "copy to the host": lambda x: x.cpu(),
    "copy to another device": lambda x: x.to("openreg:1"),
    "item": lambda x: x[0, 0].item(),
    "index": lambda x: x[torch.tensor([0], device=x.device)],
    "waiting": lambda x: x.nonzero(),
    "copy of it": lambda x: torch.zeros_like(x).copy_(x),
    "view": lambda x: x.t()[1:],
    "cat": lambda x: torch.cat([x, x]),
    "foreach": lambda x: torch._foreach_add([x], 1),
    "sort": lambda x: x.sort(),
    "conv": lambda x: F.conv1d(x[None], x[:, None], groups=2),
    "repr": repr,
    "gradient": lambda x: torch.autograd.grad(x.requires_grad_().exp().sum(), x),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_reader_shares(read, clones):
    x, y = clones
    results = [read(x), read(y)]
    assert is_shared(x) and is_shared(y)
    del results


def test_a_clone_takes_no_memory_until_it_is_written_to(clones):
    x, y = clones
    y.cpu(), (x + y).sum().item()
    gc.collect()
    torch.openreg.reset_peak_memory_stats()
    before = torch.openreg.memory_allocated()
    z = torch._lazy_clone(x)
    z.cpu()
    assert torch.openreg.max_memory_allocated() == before
    z.add_(1)
    assert torch.openreg.memory_allocated() == before + 512
    del x, y, z, clones
    gc.collect()


def test_all_clones_gone_means_the_memory_is_free():
    gc.collect()
    before = torch.openreg.memory_allocated()
    x = numbers()
    y = torch._lazy_clone(x)
    z = torch._lazy_clone(y)
    y.add_(1)
    del x, y, z
    gc.collect()
    assert torch.openreg.memory_allocated() == before


# --- elsewhere ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [{"OPENREG_SCHEDULE": "async"}, {"OPENREG_EXECUTOR": "process"}],
    ids=["queued", "device process"],
)
def test_the_same_holds(variables, run_tests):
    run_tests(__file__, "-q", "-k", "not same_holds", **variables)
