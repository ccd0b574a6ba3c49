"""Level 5: operators without a kernel of the device go through the CPU."""

import torch

from ..check import check
from ..expect import expect, expect_equal

PAGE = "minimal_set.md"
WRITE = "A boxed fallback for the whole key, `native::cpu_fallback`, or a kernel of your own."


@check(call="x + y, x.exp(), x @ y, x.sum()", write=WRITE, page=PAGE)
def runs_operators(device):
    """Operators of each kind give the CPU's numbers."""
    (a, x), (b, y) = device.pair(4, 5), device.pair(4, 5, seed=1)
    for name, function in {
        "add": lambda p, q: torch.add(p, q, alpha=2),
        "mul": torch.mul,
        "exp": lambda p, q: p.exp(),
        "matmul": lambda p, q: p @ q.t(),
        "sum": lambda p, q: p.sum(0, keepdim=True),
        "softmax": lambda p, q: p.softmax(1),
        "sort": lambda p, q: p.sort(0).values,
        "where": lambda p, q: torch.where(p > q, p, q),
        "norm": lambda p, q: p.norm(),
        "cumsum": lambda p, q: p.cumsum(1),
        "logical": lambda p, q: (p > 0) & (q < 1),
    }.items():
        device.expect_close(function(x, y), function(a, b), name)


@check(call="x.add_(1), torch.sub(x, y, out=z)", write=WRITE, page=PAGE)
def writes_in_place(device):
    """In-place operators and `out=` write to the tensors they are given."""
    (a, x), (b, y) = device.pair(4, 5), device.pair(4, 5, seed=1)
    pointer = x.data_ptr()
    device.expect_close(x.add_(y).mul_(2), a.add_(b).mul_(2), "in place")
    expect_equal(x.data_ptr(), pointer, "the address after add_()")
    out, expected = torch.zeros(8, 5, device=device.at()), torch.zeros(8, 5)
    torch.sub(x, y, out=out[::2])
    torch.sub(a, b, out=expected[::2])
    device.expect_close(out, expected, "out= with strides")
    grown = torch.empty(0, device=device.at())
    torch.mul(x, y, out=grown)
    device.expect_close(grown, a * b, "out= that has to grow")


@check(call="torch.cat([x, y]), torch.stack([x, y])", write=WRITE, page=PAGE)
def takes_lists(device):
    """Lists of tensors are arguments and results."""
    (a, x), (b, y) = device.pair(2, 3), device.pair(2, 3, seed=1)
    device.expect_close(torch.cat([x, y], 1), torch.cat([a, b], 1), "cat")
    for found, expected in zip(x.split(1), a.split(1), strict=True):
        device.expect_close(found, expected, "split")
    found = torch._foreach_add([x, y], 1.0)
    for one, expected in zip(found, (a + 1, b + 1), strict=True):
        device.expect_close(one, expected, "_foreach_add")


@check(call="x.topk(2), torch.linalg.svd(x)", write=WRITE, page=PAGE)
def gives_several_results(device):
    """Several results come back, each on the device."""
    host, x = device.pair(4, 5)
    for found, expected in zip(x.topk(2), host.topk(2), strict=True):
        device.expect_close(found, expected, "topk")
    values, places = x.max(1)
    device.expect_close(values, host.max(1).values, "max")
    device.expect_close(places, host.max(1).indices, "argmax")


@check(call="x + torch.tensor(2.0)", write=WRITE, page=PAGE)
def mixes_with_numbers(device):
    """A CPU tensor without dimensions counts as a number."""
    host, x = device.pair(3)
    number = torch.tensor(2.0)
    device.expect_close(x + number, host + 2, "a number on the right")
    device.expect_close(number - x, 2 - host, "a number on the left")
    device.expect_close(x * True, host, "a Python bool")


@check(call="x[index], x[mask] = 1, x.gather()", write=WRITE, page=PAGE)
def indexes(device):
    """Indexing with tensors reads and writes."""
    host, x = device.pair(5, 4)
    places = torch.tensor([3, 0, 3])
    mask = host > 0
    at = device.at()
    device.expect_close(x[places.to(at)], host[places], "an index on the device")
    device.expect_close(x[places], host[places], "an index on the CPU")
    device.expect_close(x[mask.to(at)], host[mask], "a mask")
    x[mask.to(at)] = 9.0
    host[mask] = 9.0
    x[1, places.to(at)] += 1
    host[1, places] += 1
    device.expect_close(x, host, "after writing")


@check(call="x.nonzero(), x.unique()", write=WRITE, page=PAGE)
def makes_shapes_of_data(device):
    """Results whose shape depends on the data have the CPU's shape."""
    host, x = device.pair(4, 4, dtype=torch.int64)
    device.expect_close(x.nonzero(), host.nonzero(), "nonzero")
    device.expect_close(x.unique(), host.unique(), "unique")
    device.expect_close(x.masked_select(x > 0), host.masked_select(host > 0), "select")


@check(call="nn.functional.layer_norm(x, (5,), None)", write=WRITE, page=PAGE)
def takes_optional_tensors(device):
    """Optional tensors may be missing."""
    import torch.nn.functional as F

    host, x = device.pair(3, 5)
    weight, bias = device.pair(5, seed=1)[1], device.pair(5, seed=2)[1]
    device.expect_close(F.layer_norm(x, (5,)), F.layer_norm(host, (5,)), "without")
    expected = F.layer_norm(host, (5,), weight.cpu(), bias.cpu())
    device.expect_close(F.layer_norm(x, (5,), weight, bias), expected, "with")
    expected = F.linear(host, torch.ones(2, 5))
    device.expect_close(F.linear(x, torch.ones(2, 5, device=device.at())), expected)


@check(call="x.byte() + 1, x.half() * 2", write=WRITE, page=PAGE)
def has_every_dtype(device):
    """Arithmetic works for each dtype, with PyTorch's rules of promotion."""
    for dtype in device.dtypes:
        host, x = device.pair(6, dtype=dtype)
        device.expect_close(x + x, host + host, f"{dtype} + {dtype}")
        device.expect_close(x * 2.5, host * 2.5, f"{dtype} * 2.5")


@check(
    call="torch.rand(2, device=NAME), x.normal_(generator=g)",
    write="Lend the CPU's kernels a generator with the state of yours, or draw on the"
    " device; take the default generator from the hooks.",
    page="generator.md",
)
def draws_from_its_generator(device):
    """Random numbers repeat with the seed, from the default or a given generator."""
    at = device.at()

    def draw(**options):
        drawn = (
            torch.rand(8, device=at, **options),
            torch.randn(8, device=at, **options),
        )
        return (*drawn, torch.randint(0, 99, (8,), device=at, **options))

    torch.manual_seed(5)
    first, more = draw(), draw()
    torch.manual_seed(5)
    again = draw()
    for left, right, other in zip(first, again, more, strict=True):
        expect(left.cpu().equal(right.cpu()), "the same seed gives other numbers")
        expect(not left.cpu().equal(other.cpu()), "the numbers repeat without a seed")
    generator = torch.Generator(at).manual_seed(7)
    state = generator.get_state()
    first = draw(generator=generator)
    expect(not generator.get_state().equal(state), "drawing leaves the state as it was")
    generator.set_state(state)
    for left, right in zip(first, draw(generator=generator), strict=True):
        expect(left.cpu().equal(right.cpu()), "the same state gives other numbers")


@check(
    call="torch.manual_seed(n); torch.rand(2, device='NAME:1')",
    write="A default generator for each device, which `getDefaultGenerator(i)` gives;"
    " `manual_seed_all` of the module seeds all of them.",
    page="generator.md",
    needs=("devices",),
)
def each_device_draws_its_own(device):
    """Each device has random numbers of its own, and torch.manual_seed seeds them all."""
    drawn = []
    for order in (range(device.count), reversed(range(device.count))):
        torch.manual_seed(5)
        drawn.append({i: torch.rand(8, device=device.at(i)).cpu() for i in order})
    for index in range(device.count):
        expect(
            drawn[0][index].equal(drawn[1][index]),
            f"the numbers of {device.at(index)} depend on what other devices drew, or"
            " torch.manual_seed does not seed it",
        )


@check(
    call="torch.rand(1000, device=NAME)",
    write="Check the kernel that draws: range, mean and independence of the numbers.",
    page="generator.md",
)
def numbers_are_random(device):
    """Uniform numbers are in [0, 1) with mean 1/2, permutations are permutations."""
    torch.manual_seed(1)
    x = torch.rand(10000, device=device.at()).cpu()
    expect(bool(((x >= 0) & (x < 1)).all()), "torch.rand leaves [0, 1)")
    expect(abs(x.mean().item() - 0.5) < 0.02, f"the mean is {x.mean().item():.3f}")
    order = torch.randperm(100, device=device.at()).cpu()
    expect(order.sort().values.equal(torch.arange(100)), "randperm is no permutation")
    kept = torch.nn.functional.dropout(torch.ones(10000, device=device.at()), 0.25)
    share = (kept != 0).float().mean().item()
    expect(abs(share - 0.75) < 0.03, f"dropout of 0.25 keeps {share:.3f}")


@check(
    call="torch.ones(2, device='NAME:1') * 2",
    write="Kernels and the fallback hold a guard of their tensors' device.",
    page=PAGE,
    needs=("devices",),
)
def runs_on_each_device(device):
    """Operators run where their tensors are, whatever device is current."""
    host, x = device.pair(3, 3, index=1)
    found = (x @ x + 1).relu()
    device.expect_on_device(found, "the result", 1)
    device.expect_close(found, (host @ host + 1).relu())
    expect_equal(torch.accelerator.current_device_index(), 0, "the current device")
