"""OPENREG_RNG=philox: a GPU's random numbers, its state and its offsets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PHILOX = {"OPENREG_RNG": "philox", "OPENREG_DEVICE_PROFILE": "h200"}


@pytest.fixture
def run_philox(run_python):
    """Runs code in a Python whose devices draw as an H200 does."""

    def run(code, **options):
        return run_python(
            "import torch\n"
            "openreg, device = torch.openreg, 'openreg'\n"
            "generator = openreg.default_generators[0]\n" + code,
            **{**PHILOX, **options},
        )

    return run


# --- against the recordings -------------------------------------------------------

# The host's functions of 64 bits, a quotient of the hardware in the tangent, and sums
# and equal weights whose order on a GPU is not known.
INEXACT = re.compile(
    r"(randn|normal_|log_normal_|exponential_|normal \w\w) (torch\.complex128|float64)"
    r"|cauchy_ |dirichlet |gamma float|multinomial (float32 True long|b?float16 )"
)


@pytest.fixture(scope="module")
def compared(run_script):
    result = run_script("tests/golden/philox.py", **PHILOX)
    assert result.returncode == 0, result.stderr
    return result


def test_draws_are_those_of_a_gpu_in_every_bit(compared):
    different = [line for line in compared.stderr.splitlines() if "|" in line]
    assert [name for name in different if not INEXACT.match(name)] == []


def test_draws_in_cudas_place_are_those_of_a_gpu():
    # A fresh start: CUDA's place is taken when torch is imported.
    result = subprocess.run(
        [sys.executable, ROOT / "tests" / "golden" / "philox.py", "7"],
        env={**os.environ, "OPENREG_AS": "cuda", "OPENREG_QUIET": "1", **PHILOX},
        text=True,
        capture_output=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) > 20  # kinds of draws
    different = [line for line in result.stderr.splitlines() if "|" in line]
    assert [name for name in different if not INEXACT.match(name)] == []


def test_the_table_of_the_guide_is_what_the_command_prints(compared):
    assert compared.stdout.strip() in (ROOT / "docs" / "generator.md").read_text()


def test_the_number_of_multiprocessors_decides_which_thread_draws_a_number(run_philox):
    code = """
torch.manual_seed(0)
print(torch.rand(200000, device=device)[[0, 1000, 150000]].tolist())"""
    h200, small = (run_philox(code, OPENREG_DEVICE_PROFILE=p) for p in ("h200", "t4"))
    first, *others = eval(h200)
    assert eval(small)[0] == first and eval(small)[1:] != others


# --- the state ----------------------------------------------------------------------


def test_a_state_is_a_seed_and_an_offset(run_philox):
    run_philox(
        """
openreg.manual_seed(5)
first = torch.rand(3, device=device)
state = openreg.get_rng_state()
assert state.dtype is torch.uint8 and state.view(torch.int64).tolist() == [5, 4]
second = torch.rand(3, device=device)
generator.set_offset(4)
assert torch.equal(torch.rand(3, device=device), second)
generator.set_offset(0)
assert torch.equal(torch.rand(3, device=device), first)
openreg.set_rng_state(state)
assert generator.get_offset() == 4 and openreg.initial_seed() == 5
other = torch.Generator(device).manual_seed(5)
other.set_state(state)
assert torch.equal(torch.rand(3, device=device, generator=other), second)
other.set_state(torch.tensor([5]).view(torch.uint8))  # as CUDA's once were
assert other.get_offset() == 0 and other.initial_seed() == 5
openreg.manual_seed(2**64 - 1)
assert openreg.get_rng_state().tolist() == [255] * 8 + [0] * 8
"""
    )


def test_bad_offsets_and_states_are_refused(run_philox):
    run_philox(
        """
def message(function, *arguments):
    try:
        function(*arguments)
    except (RuntimeError, TypeError) as error:
        return str(error)

assert message(generator.set_offset, 6) == "offset must be a multiple of 4, but got 6"
assert "multiple of 4" in message(
    generator.set_state, torch.tensor([1, 3]).view(torch.uint8)
)
assert "RNG state is wrong size" in message(
    generator.set_state, torch.zeros(17, dtype=torch.uint8)
)
assert "ByteTensor" in message(generator.set_state, torch.zeros(16))
assert generator.get_offset() == 0
"""
    )


def test_an_unknown_generator_is_refused(run_python):
    result = run_python("import torch", check=False, OPENREG_RNG="mersenne")
    assert result.returncode != 0
    assert "OPENREG_RNG is 'mersenne', but it must be cpu or philox" in result.stderr


def test_draws_in_any_stream_take_the_next_numbers_of_the_program(run_philox):
    run_philox(
        """
torch.manual_seed(1)
wanted = [torch.rand(100, device=device) for _ in range(4)]
torch.manual_seed(1)
streams = [openreg.Stream() for _ in range(4)]
found = []
for stream in streams:
    with openreg.stream(stream):
        found.append(torch.rand(100, device=device))
openreg.synchronize()
assert all(map(torch.equal, found, wanted))
"""
    )


def test_empty_tensors_draw_nothing(run_philox):
    run_philox(
        """
x = torch.empty(0, device=device)
x.uniform_(), x.normal_(), x.exponential_(), x.cauchy_(), x.log_normal_()
x.random_(), x.random_(5), x.bernoulli_(0.5), x.bernoulli_(x), x.geometric_(0.5)
torch.poisson(x), torch._standard_gamma(x), torch.binomial(x, x), torch.normal(x, x)
torch.nn.functional.dropout(x), torch.nn.functional.rrelu(x, training=True)
torch.randperm(0, device=device), torch.rand(0, 3, device=device)
openreg.synchronize()
"""
    )


def test_concentrations_without_a_distribution_are_refused(run_philox):
    run_philox(
        """
try:
    torch._standard_gamma(torch.full((4,), -5.0, device=device)).cpu()
    raise SystemExit("not refused")
except RuntimeError as error:
    assert "concentrations of 0 or more, but got -5" in str(error), error
"""
    )


def test_weights_below_zero_and_tensors_of_the_cpu_are_refused(run_philox):
    run_philox(
        """
def message(function):
    try:
        function()
    except RuntimeError as error:
        return str(error)

own = torch.Generator(device)
for draw in (torch.Tensor.uniform_, torch.Tensor.random_, torch.Tensor.exponential_):
    found = message(lambda: draw(torch.ones(2), generator=own))
    assert "Expected a 'cpu' device type for generator but found 'openreg'" in found
weights = torch.tensor([-1.0, 2.0], device=device)
found = message(lambda: torch.multinomial(weights, 4, True).cpu())
assert "invalid multinomial distribution (probability -1 is below 0)" in found, found
"""
    )


@pytest.mark.slow
def test_tensors_beyond_32_bits_draw_in_parts(run_philox):
    run_philox(
        """
torch.manual_seed(0)
x = torch.empty(2**31 + 8, device=device, dtype=torch.uint8).bernoulli_(0.5)
# The whole is counted, then both halves, as CUDA does.
assert generator.get_offset() == 4 * (1986 + 993 + 993)
assert 0.49 < x[-1000000:].float().mean().item() < 0.51
"""
    )


# --- others who draw ------------------------------------------------------------------


def test_a_kernel_of_the_cpu_is_seeded_from_the_sequence(run_philox):
    run_philox(
        """
library = torch.library.Library("drawing", "DEF")
library.define("draw(Tensor x, *, Generator? generator=None) -> Tensor")
library.impl(
    "draw", lambda x, generator=None: torch.rand(4, generator=generator), "CPU"
)
x = torch.ones(4, device=device)
def draw(seed):
    torch.manual_seed(seed)
    return [torch.ops.drawing.draw(x).tolist() for _ in range(2)]

first, second = draw(3)
assert first != second and generator.get_offset() == 8
assert draw(3) == [first, second] and draw(4) != [first, second]
"""
    )


def test_replays_go_on_from_the_offset(run_philox):
    run_philox(
        """
torch.manual_seed(7)
wanted = [torch.rand(5, device=device) for _ in range(7)]
torch.manual_seed(7)
stream = openreg.Stream()
graph = openreg.OpenRegGraph()
with openreg.stream(stream):
    graph.capture_begin()
    made = torch.rand(5, device=device), torch.rand(5, device=device)
    graph.capture_end()
assert generator.get_offset() == 0
found = []
for _ in range(3):
    graph.replay()
    found += [made[0].clone(), made[1].clone()]
assert generator.get_offset() == 24
assert all(map(torch.equal, found, wanted))
assert torch.equal(torch.rand(5, device=device), wanted[6])
generator.set_offset(4)
graph.replay()
assert torch.equal(made[0], wanted[1]) and generator.get_offset() == 12
"""
    )


def test_captures_that_share_a_generator_are_refused(run_philox):
    run_philox(
        """
torch.manual_seed(7)
graphs = openreg.OpenRegGraph(), openreg.OpenRegGraph()
streams = openreg.Stream(), openreg.Stream()
with openreg.stream(streams[0]):
    graphs[0].capture_begin()
    try:
        with openreg.stream(streams[1]):
            graphs[1].capture_begin()
        raise SystemExit("not refused")
    except RuntimeError as error:
        assert "cannot be captured at the same time" in str(error), error
    made = torch.rand(5, device=device)
    graphs[0].capture_end()
graphs[0].replay()
first = made.clone()
torch.manual_seed(7)
assert torch.equal(torch.rand(5, device=device), first)
"""
    )


def test_a_device_process_draws_the_same_numbers(run_philox):
    code = """
torch.manual_seed(2)
x = torch.randn(1000, device=device)
x = torch.nn.functional.dropout(x, 0.3).bernoulli_(0.2) + torch.rand_like(x)
print(x.sum().item(), torch.randperm(9, device=device).tolist())
"""
    assert run_philox(code) == run_philox(code, OPENREG_EXECUTOR="process")


def test_dropout_in_a_training_step_is_repeated_by_its_seed(run_philox):
    run_philox(
        """
model = torch.nn.Sequential(
    torch.nn.Linear(8, 8), torch.nn.Dropout(0.4), torch.nn.Linear(8, 1)
).to(device)
def gradients():
    torch.manual_seed(3)
    model.zero_grad()
    model(torch.ones(4, 8, device=device)).sum().backward()
    return [p.grad.clone() for p in model.parameters()]
assert all(map(torch.equal, gradients(), gradients()))
assert generator.get_offset() == 4
x = torch.ones(64, device=device, requires_grad=True)
y = torch.nn.functional.dropout(x, 0.25)
y.sum().backward()
assert torch.equal(x.grad, y) and set(y.tolist()) == {0.0, torch.tensor(4 / 3).item()}
"""
    )


@pytest.mark.slow
def test_compiled_code_draws_from_the_state(run_philox):
    run_philox(
        """
@torch.compile
def draw(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

x = torch.ones(1000, device=device)
def twice(seed):
    torch.manual_seed(seed)
    return torch.stack([draw(x), draw(x)])
first = twice(1)
assert generator.get_offset() > 0
assert torch.equal(twice(1), first) and not torch.equal(twice(2), first)
assert not torch.equal(first[0], first[1])
"""
    )


@pytest.mark.slow
def test_shards_of_a_dtensor_begin_at_offsets(ranks):
    ranks(
        """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    import torch.distributed.tensor as dt

    mesh = init_device_mesh("openreg", (size,))
    torch.manual_seed(3)
    alone = torch.rand(8, 4, device=device)
    torch.manual_seed(3)
    whole = dt.rand(8, 4, device_mesh=mesh, placements=[Replicate()])
    assert torch.equal(whole.to_local(), alone)
    torch.manual_seed(3)
    shards = dt.rand(8, 4, device_mesh=mesh, placements=[Shard(0)])
    generator = torch.openreg.default_generators[device.index]
    assert generator.get_offset() == 32  # the elements of all shards
    full = shards.full_tensor()
    assert torch.equal(full[: 8 // size], alone[: 8 // size])
    assert full.unique().numel() == full.numel()
    """,
        OPENREG_DEVICE_COUNT="2",
        **PHILOX,
    )
