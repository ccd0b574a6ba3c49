"""Operators run with the CPU's kernels: forms of a call, random numbers, threads.

`tests/conformance` has all operators.
"""

import threading

import pytest
import torch
from torch.utils._pytree import tree_leaves

# --- forms of a call ----------------------------------------------------------


def test_outputs_are_resized_and_given_back():
    x, y = torch.rand(3, 4).openreg(), torch.rand(3, 4).openreg()
    out = torch.empty(0, device="openreg")
    assert torch.add(x, y, out=out) is out
    assert torch.equal(out.cpu(), x.cpu() + y.cpu())

    values, indices = (
        torch.empty(0).openreg(),
        torch.empty(0, dtype=torch.int64).openreg(),
    )
    found = torch.sort(x, out=(values, indices))
    assert (found.values.data_ptr(), found.indices.data_ptr()) == (
        values.data_ptr(),
        indices.data_ptr(),
    )
    assert torch.equal(values.cpu(), x.cpu().sort().values)

    part = torch.zeros(5, 4, device="openreg")
    torch.mul(x, y, out=part[1:4])
    assert torch.equal(part[1:4].cpu(), x.cpu() * y.cpu())
    assert not part[[0, 4]].any()


@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.half, torch.int64])
@pytest.mark.parametrize("number", [0.1, -0.0, 1e300, 3, 2**60 + 1, True])
def test_a_number_is_cast_as_on_the_cpu(dtype, number):
    x = torch.arange(1, 5).to(dtype)
    for call in (torch.mul, torch.gt, torch.add):
        found, expected = call(x.openreg(), number), call(x, number)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)
        signs = torch.signbit(found.cpu()), torch.signbit(expected)
        assert torch.equal(*signs)


# In a process of its own: what it tests crashed.
RELEASED = """
import torch
x = torch.ones(4, device="openreg")
x.untyped_storage().resize_(0)
calls = [lambda: x + 1, lambda: x.relu_(), lambda: torch.cat([x, x]), lambda: x.fill_(1),
         lambda: x.sort(), lambda: x.cpu(), lambda: torch.ones(4).openreg().copy_(x)]
for call in calls:
    try:
        call()
    except RuntimeError as error:
        print(error)
x.untyped_storage().resize_(16)
print(x.fill_(2).sum().item())
"""


def test_a_tensor_without_memory_is_refused(run_python):
    *errors, total = run_python(RELEASED).strip().splitlines()
    assert len(errors) == 7 and total == "8.0"
    for error in errors:
        assert error.startswith(
            "a tensor of shape [4] on openreg:0 needs 16 bytes, but its storage was "
            "released and has 0; give it memory again"
        )


def test_resizing_an_output_with_elements_warns_as_on_the_cpu():
    for device in ("cpu", "openreg"):
        x = torch.ones(3, device=device)
        with pytest.warns(UserWarning, match="An output with one or more elements was"):
            torch.nonzero(x, out=torch.ones(7, dtype=torch.int64, device=device))
        torch.openreg.synchronize()


# In a process of its own: what it tests broke the device. More than ten elements are
# sorted, and how many of them are unique depends on the data.
ISIN = """
import itertools
import warnings
import torch

warnings.simplefilter("ignore")  # outputs with elements are resized
bits = itertools.product([False, True], repeat=2)
options = [{"assume_unique": unique, "invert": invert} for unique, invert in bits]
tests = [torch.arange(n) for n in (0, 1, 6, 30)]
tests += [tests[2].view(2, 3).t(), tests[2].double(), tests[3].byte()]
tests += [torch.full((30,), 3, dtype=torch.uint8)]
calls = [(x, n) for x in tests for n in (3, 40, 2.5, torch.tensor(3))]
calls += [(n, x) for x, n in calls] + list(itertools.product(tests, tests))


def answer(call, device, given, **options):
    on = [x.to(device) if isinstance(x, torch.Tensor) else x for x in call]
    if given is not None:
        options["out"] = torch.ones(given, dtype=torch.bool, device=device)
    try:
        found = torch.isin(*on, **options)
    except RuntimeError as error:
        return str(error)  # of the CPU's kernel, for a transposed second tensor
    assert found is options.get("out", found)
    return found.tolist(), found.dtype, found.stride()


for given, option, call in itertools.product((None, 0, (), 6), options, calls):
    expected = answer(call, "cpu", given, **option)
    found = answer(call, "openreg", given, **option)
    assert found == expected, (call, option, given, found, expected)
print(len(calls))
"""


@pytest.mark.parametrize("schedule", ["auto", "async"])
def test_isin_gives_the_cpus_answer_in_every_form(schedule, run_python):
    assert int(run_python(ISIN, OPENREG_SCHEDULE=schedule)) > 100


def test_isin_of_a_number_is_queued(hold):
    x = torch.arange(1 << 16).openreg()
    torch.isin(3, x)
    gate = hold(torch.openreg.current_stream())
    found = torch.isin(3, x)
    gate.open()
    assert found.item()


def test_operators_work_in_place():
    x = torch.rand(3, 4)
    y = x.openreg()
    for change in (
        lambda t: t.mul_(3).sub_(1),
        lambda t: t.t_().clamp_(0, 1).t_(),
        lambda t: t[1:, ::2].exp_(),
        lambda t: t.masked_fill_(t > 1, 0.5),
        lambda t: t.index_fill_(1, torch.tensor([2], device=t.device), 9),
        lambda t: torch.relu_(t),
        lambda t: t.cumsum_(0),
        lambda t: t.__setitem__(0, 7.5),
        lambda t: t.__ipow__(2),
    ):
        change(x), change(y)
        assert torch.equal(y.cpu(), x)


def test_lists_of_tensors_are_arguments_and_results():
    x = [torch.rand(n) for n in (2, 0, 5)]
    y = [t.openreg() for t in x]
    for function in (
        torch.cat,
        torch._foreach_exp,
        torch.block_diag,
        torch.cartesian_prod,
    ):
        values = (
            (x, y) if function in (torch.cat, torch._foreach_exp) else (x[::2], y[::2])
        )
        starred = function in (torch.block_diag, torch.cartesian_prod)
        expected, found = (function(*v) if starred else function(v) for v in values)
        for a, b in zip(tree_leaves(expected), tree_leaves(found), strict=True):
            assert torch.equal(b.cpu(), a)
    torch._foreach_add_(y, 1)
    assert y[2].tolist() == (x[2] + 1).tolist()
    parts = y[2].split([2, 3])
    parts[0].zero_()
    assert y[2][:2].tolist() == [0, 0]


def test_optional_arguments_may_be_missing():
    x = torch.rand(4, 3)
    weight, bias = torch.rand(3), torch.rand(3)
    functional = torch.nn.functional
    for arguments in ((None, None), (weight, None), (weight, bias)):
        ours = [a if a is None else a.openreg() for a in arguments]
        expected = functional.layer_norm(x, (3,), *arguments)
        assert torch.equal(
            functional.layer_norm(x.openreg(), (3,), *ours).cpu(), expected
        )
    rows = [slice(None), torch.tensor([0, 2])]
    assert torch.equal(x.openreg()[tuple(rows)].cpu(), x[tuple(rows)])
    assert torch.equal(x.openreg()[rows[1].openreg(), None].cpu(), x[rows[1], None])


RANDOM = {
    "bernoulli": lambda d, g: torch.full((5, 5), 0.3, device=d).bernoulli(generator=g),
    "cauchy_": lambda d, g: torch.empty(7, device=d).cauchy_(generator=g),
    "exponential_": lambda d, g: torch.empty(7, device=d).exponential_(generator=g),
    "geometric_": lambda d, g: torch.empty(7, device=d).geometric_(0.3, generator=g),
    "log_normal_": lambda d, g: torch.empty(7, device=d).log_normal_(generator=g),
    "multinomial": lambda d, g: torch.ones(9, device=d).multinomial(4, generator=g),
    "normal": lambda d, g: torch.normal(torch.zeros(19, device=d), 2.0, generator=g),
    "poisson": lambda d, g: torch.poisson(torch.full((7,), 3.0, device=d), generator=g),
    "rand": lambda d, g: torch.rand(17, device=d, generator=g),
    "randint": lambda d, g: torch.randint(0, 99, (17,), device=d, generator=g),
    "randn": lambda d, g: torch.randn(17, device=d, generator=g),
    "randn double": lambda d, g: torch.randn(
        17, device=d, generator=g, dtype=torch.float64
    ),
    "randperm": lambda d, g: torch.randperm(50, device=d, generator=g),
    "random_": lambda d, g: torch.empty(7, device=d).random_(0, 99, generator=g),
    "uniform_": lambda d, g: torch.empty(70000, device=d).uniform_(-1, 1, generator=g),
}


@pytest.mark.parametrize("draw", RANDOM.values(), ids=RANDOM)
def test_random_operators_draw_the_cpus_numbers(draw):
    ours, theirs = torch.Generator("openreg:1"), torch.Generator()
    ours.manual_seed(5), theirs.manual_seed(5)
    for _ in range(2):
        assert torch.equal(draw("openreg:1", ours).cpu(), draw("cpu", theirs))
    assert torch.equal(ours.get_state(), theirs.get_state())

    torch.manual_seed(8)
    expected = draw("cpu", None)
    torch.manual_seed(8)
    assert torch.equal(draw("openreg:1", None).cpu(), expected)


def test_dropout_draws_the_cpus_numbers():
    for device in ("cpu", "openreg"):
        torch.manual_seed(4)
        x = torch.ones(1000, device=device, requires_grad=True)
        y = torch.nn.functional.dropout(x, 0.3)
        y.sum().backward()
        if device == "cpu":
            expected = y.detach(), x.grad
    assert torch.equal(y.detach().cpu(), expected[0])
    assert torch.equal(x.grad.cpu(), expected[1])


# --- threads ------------------------------------------------------------------


def test_threads_work_at_the_same_time():
    x = torch.rand(64, 64)
    expected = (x @ x).relu().sum(0)
    failures = []

    def work(device, stream):
        try:
            with stream:
                y = x.to(device)
                for _ in range(50):
                    found = (y @ y).relu().sum(0)
                    if not torch.equal(found.cpu(), expected):
                        failures.append("another result")
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(device, torch.Stream(device)))
        for device in ("openreg:0", "openreg:1", "openreg:0", "openreg:1")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- other schedules ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_queued_operators_give_the_same(schedule, run_tests):
    """All of this file, with everything queued that can be."""
    run_tests("-m", "not slow", __file__, timeout=600, OPENREG_SCHEDULE=schedule)


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_strides_do_not_depend_on_how_busy_a_stream_is(hold):
    """The CPU casts before it looks at strides, a device afterwards."""
    number = torch.ones((), dtype=torch.half).expand(2, 3, 2, 3)
    last = torch.rand(2, 3, 2, 3).chalf(memory_format=torch.channels_last)
    ours = number.openreg().expand(2, 3, 2, 3), last.openreg()
    expected = torch.mul(number, last).stride()
    assert torch.mul(*ours).stride() == expected
    gate = hold(torch.openreg.current_stream())
    opener = threading.Timer(0, gate.open)
    opener.start()
    assert torch.mul(*ours).stride() == expected
    opener.join()
