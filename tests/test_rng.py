"""Random numbers: seeds, states, and the order of draws.

Generators as objects are in test_generator.py.
"""

import sys
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

pytestmark = pytest.mark.usefixtures("as_before")

DEVICES = ["openreg:0", "openreg:1"]
openreg = torch.openreg


def draw(device="openreg", n=4, **options):
    return torch.rand(n, device=device, **options).tolist()


# --- seeds --------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [torch.manual_seed, openreg.manual_seed_all])
def test_every_device_is_seeded(seed, device):
    seed(3)
    first = draw(device)
    assert draw(device) != first
    seed(3)
    assert draw(device) == first


def test_the_current_device_is_seeded_alone():
    openreg.manual_seed_all(1)
    first = {device: draw(device) for device in DEVICES}
    openreg.manual_seed_all(1)
    draw("openreg:0"), draw("openreg:1")
    with openreg.device(1):
        openreg.manual_seed(1)
    assert draw("openreg:1") == first["openreg:1"]
    assert draw("openreg:0") != first["openreg:0"]


@pytest.mark.parametrize("seed", [0, 7, 2**63])
def test_a_seed_gives_the_numbers_it_gives_on_the_cpu(seed):
    torch.manual_seed(seed)
    assert draw() == draw("cpu")


def test_the_devices_generator_is_apart_from_the_cpus():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    draw()
    openreg.manual_seed(9)
    openreg.seed_all()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_seed_can_be_read_back():
    openreg.manual_seed(11)
    assert openreg.initial_seed() == 11
    openreg.manual_seed(-1)
    assert openreg.initial_seed() == 2**64 - 1
    openreg.manual_seed(2.9)
    assert openreg.initial_seed() == 2


def test_random_seeds_differ():
    seen = set()
    for seed in (openreg.seed, openreg.seed_all, openreg.seed):
        seed()
        seen.add(openreg.initial_seed())
    assert len(seen) == 3


def test_all_devices_get_the_same_random_seed():
    openreg.seed_all()
    seeds = [g.initial_seed() for g in openreg.default_generators]
    assert seeds[0] == seeds[1]


@pytest.mark.parametrize("seed", [openreg.manual_seed, openreg.manual_seed_all])
@pytest.mark.parametrize(
    ("value", "error"), [("a", ValueError), (None, TypeError), (2**64, ValueError)]
)
def test_bad_seeds_are_refused(seed, value, error):
    with pytest.raises(error):
        seed(value)


def test_seeding_does_not_start_the_device_and_counts(run_python):
    code = """
import torch
torch.openreg.manual_seed(11)
torch.manual_seed(12)
torch.openreg.seed_all()
torch.openreg.manual_seed(13)
print(torch.openreg.is_initialized(), torch.openreg.initial_seed())
"""
    assert run_python(code) == "False 13"


def test_a_random_seed_reaches_every_device():
    seed = torch.seed()
    assert [g.initial_seed() for g in openreg.default_generators] == [seed, seed]


def test_the_first_seed_is_random(run_python):
    code = "import torch; print(torch.openreg.initial_seed())"
    assert run_python(code) != run_python(code)


def test_seeding_without_a_device_does_nothing(run_python):
    code = """
import torch
torch.manual_seed(1)
torch.openreg.manual_seed(1)
torch.openreg.manual_seed_all(1)
torch.openreg.seed()
torch.openreg.seed_all()
torch.openreg.set_rng_state(torch.get_rng_state())
print(torch.openreg.get_rng_state_all(), torch.openreg.default_generators)
"""
    assert run_python(code, OPENREG_DEVICE_COUNT="0") == "[] ()"


# --- states -------------------------------------------------------------------


@pytest.mark.parametrize("device", ["openreg:1", 1, torch.device("openreg:1")])
def test_a_state_brings_the_numbers_back(device):
    openreg.manual_seed_all(1)
    draw("openreg:1")
    state = openreg.get_rng_state(device)
    first = draw("openreg:1")
    openreg.set_rng_state(state, device)
    assert draw("openreg:1") == first


@pytest.mark.parametrize("device", ["openreg", torch.device("openreg")])
def test_a_state_is_the_current_devices_by_default(device):
    openreg.manual_seed_all(1)
    with openreg.device(1):
        draw("openreg:1")
        assert torch.equal(openreg.get_rng_state(device), openreg.get_rng_state(1))
        assert torch.equal(openreg.get_rng_state(), openreg.get_rng_state(1))
    assert not torch.equal(openreg.get_rng_state(), openreg.get_rng_state(1))


def test_the_states_of_all_devices_come_and_go_together():
    openreg.manual_seed_all(1)
    states = openreg.get_rng_state_all()
    assert [type(states), len(states)] == [list, 2]
    first = [draw(device) for device in DEVICES]
    openreg.set_rng_state_all(states)
    assert [draw(device) for device in DEVICES] == first
    openreg.set_rng_state_all(iter(states[:1]))  # fewer than there are devices
    assert draw("openreg:0") == first[0]


def test_a_state_is_a_byte_tensor_on_the_host_and_a_copy():
    openreg.manual_seed(5)
    state = openreg.get_rng_state()
    assert (state.dtype, state.device.type) == (torch.uint8, "cpu")
    state.zero_()
    assert openreg.initial_seed() == 5


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (torch.zeros(3, dtype=torch.uint8), RuntimeError),
        (torch.zeros(5056), TypeError),
        ("state", TypeError),
        (None, TypeError),
    ],
)
def test_bad_states_are_refused_and_change_nothing(state, error):
    openreg.manual_seed(5)
    with pytest.raises(error):
        openreg.set_rng_state(state)
    assert openreg.initial_seed() == 5


@pytest.mark.parametrize("index", [2, 300, "openreg:2"])
def test_states_are_those_of_existing_devices(index):
    with pytest.raises(RuntimeError, match=r"index range \[0, 2\)"):
        openreg.get_rng_state(index)
    with pytest.raises(RuntimeError, match=r"index range \[0, 2\)"):
        openreg.set_rng_state(openreg.get_rng_state(), index)


def test_fork_rng_puts_the_state_back():
    openreg.manual_seed_all(1)
    with torch.random.fork_rng(devices=[0, 1], device_type="openreg"):
        torch.manual_seed(99)
        inside = [draw(device) for device in DEVICES]
    after = [draw(device) for device in DEVICES]
    assert after != inside
    openreg.manual_seed_all(1)
    assert [draw(device) for device in DEVICES] == after


def test_fork_rng_means_this_device_by_default():
    openreg.manual_seed_all(1)
    with pytest.warns(UserWarning, match="OPENREG_VISIBLE_DEVICES"):
        with torch.random.fork_rng():
            first = [draw(device) for device in DEVICES]
    with torch.random.fork_rng(range(2)):
        assert [draw(device) for device in DEVICES] == first
    with torch.random.fork_rng([1]):
        assert [draw(device) for device in DEVICES] == first
    assert draw("openreg:0") != first[0]
    assert draw("openreg:1") == first[1]
    with torch.random.fork_rng(enabled=False):
        second = draw("openreg:1")
    assert draw("openreg:1") != second


def test_fork_rng_puts_the_state_back_after_an_exception():
    openreg.manual_seed(1)
    with pytest.raises(ZeroDivisionError), torch.random.fork_rng([0]):
        first = draw()
        1 / 0
    assert draw() == first


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("preserve", [False, True])
def test_what_is_checkpointed_draws_again_what_it_drew(reentrant, preserve):
    x = torch.ones(1000, device="openreg:1", requires_grad=True)
    drawn = []

    def layer(x):
        mask = torch.rand_like(x)
        drawn.append(mask.tolist())
        return x * mask

    options = {"use_reentrant": reentrant, "preserve_rng_state": preserve}
    y = checkpoint(layer, x, **options)
    after = openreg.get_rng_state(1)
    y.sum().backward()
    assert (drawn[0] == drawn[1]) == preserve
    assert (x.grad.tolist() == drawn[0]) == preserve
    assert torch.equal(openreg.get_rng_state(1), after) == preserve


def test_a_data_loader_shuffles_with_the_devices_generator():
    def order(device):
        with torch.device(device):
            drawer = torch.Generator(device).manual_seed(3)
            loader = DataLoader(range(50), 10, shuffle=True, generator=drawer)
            return [batch.tolist() for batch in loader]

    assert order("openreg") == order("cpu")


# --- streams and threads ------------------------------------------------------


def test_the_stream_does_not_change_the_numbers():
    def on(stream):
        openreg.manual_seed(5)
        with openreg.stream(stream):
            x = torch.rand(1000, device="openreg")
        stream.synchronize()
        return x.tolist()

    first = on(openreg.default_stream())
    assert on(openreg.Stream()) == first
    assert on(openreg.Stream()) == first


MANY = 100_000  # too large to run at once on the calling thread


def test_draws_are_queued_and_come_in_the_order_of_the_program(hold):
    streams = [torch.openreg.Stream() for _ in range(2)]
    for stream in streams:
        with torch.openreg.stream(stream):
            torch.randn(MANY, device="openreg")  # the first call is not queued
        stream.synchronize()
    torch.manual_seed(5)
    expected = [torch.randn(MANY) for _ in range(4)]
    torch.manual_seed(5)
    gate = hold(streams[0])
    drawn = []
    for index in range(4):
        with torch.openreg.stream(streams[index % 2]):
            drawn.append(torch.randn(MANY, device="openreg"))
    # The second stream waits for the first draw, which is behind the gate.
    assert not streams[1].query()
    gate.open()
    torch.openreg.synchronize()
    assert all(map(torch.equal, (x.cpu() for x in drawn), expected))


@pytest.fixture
def opened_while_waiting(hold):
    """Holds the current stream while a function is called, and lets another thread
    open it, which gets Python's lock when the call gives it away and not before."""

    def call(queue, function):
        gate, calling = hold(torch.openreg.current_stream()), threading.Event()
        opener = threading.Thread(target=lambda: calling.wait() and gate.open())
        opener.start()
        queue()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            calling.set()
            return function()
        finally:
            sys.setswitchinterval(interval)
            opener.join()

    return call


def draw_many():
    torch.randn(MANY, device="openreg")


def test_the_state_is_that_after_what_is_queued(opened_while_waiting):
    draw_many()
    torch.manual_seed(5)
    torch.randn(MANY)
    after = torch.get_rng_state()
    torch.manual_seed(5)
    state = opened_while_waiting(draw_many, torch.openreg.get_rng_state)
    assert torch.equal(state, after)


def test_seeding_lets_other_threads_run(opened_while_waiting):
    opened_while_waiting(draw_many, lambda: torch.openreg.manual_seed_all(5))
    seeded = draw()
    openreg.manual_seed(5)
    assert draw() == seeded


def test_threads_share_the_generator():
    openreg.manual_seed(5)
    first, second = draw(), draw()
    openreg.manual_seed(5)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(draw()))
    thread.start()
    thread.join()
    assert seen == [first]
    assert draw() == second


def test_threads_never_draw_the_same_numbers():
    openreg.manual_seed(5)
    expected = torch.rand(64, 16, device="openreg").tolist()
    openreg.manual_seed(5)
    seen = []

    def work():
        for _ in range(16):
            seen.append(draw(n=16))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(expected)
