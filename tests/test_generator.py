"""`torch.Generator("openreg")`: each device's own, new ones, and what they share.

Seeds and states of the devices are in test_rng.py.
"""

import pickle

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_before")

DEVICES = ["openreg:0", "openreg:1"]
openreg = torch.openreg


def draw(device="openreg", n=4, **options):
    return torch.rand(n, device=device, **options).tolist()


def generator(seed=None, device="openreg"):
    made = torch.Generator(device)
    return made if seed is None else made.manual_seed(seed)


def test_each_device_has_one_default_generator():
    generators = openreg.default_generators
    assert type(generators) is tuple
    assert generators is openreg.default_generators
    assert [str(g.device) for g in generators] == DEVICES
    for index, device in enumerate(map(torch.device, DEVICES)):
        assert openreg._get_generator(device) is generators[index]
    with openreg.device(1):
        assert openreg._get_generator(torch.device("openreg")) is generators[1]


def test_default_generators_are_those_that_are_seeded():
    openreg.manual_seed_all(21)
    assert [g.initial_seed() for g in openreg.default_generators] == [21, 21]
    openreg.default_generators[1].manual_seed(22)
    first = draw("openreg:1")
    assert first == draw("openreg:1", generator=generator(22, "openreg:1"))


def test_a_new_generator_has_pytorchs_default_seed():
    assert generator().initial_seed() == torch.Generator().initial_seed()
    assert generator().device.type == "openreg"


def test_a_generator_without_an_index_draws_on_every_device():
    made = generator(5)
    assert made.device == torch.device("openreg")
    assert made.device.index is None  # as on CUDA
    for device in DEVICES:
        made.manual_seed(5)
        expected = draw(device, generator=generator(5, device))
        assert draw(device, generator=made) == expected
    assert made.clone_state().device.index is None
    with pytest.raises(RuntimeError, match="7"):
        torch.Generator("openreg:7")


@pytest.mark.parametrize("size", [0, 3, 5055, 5057])
def test_a_state_of_the_wrong_size_is_refused_with_both_sizes(size):
    made, state = generator(5), torch.zeros(size, dtype=torch.uint8)
    before = made.get_state()
    for set_state in (made.set_state, openreg.set_rng_state):
        with pytest.raises(RuntimeError) as caught:
            set_state(state)
        first, second = str(caught.value).splitlines()[:2]
        assert first == "RNG state is wrong size"  # CUDA's sentence
        assert f"has {size} bytes, but must have {before.numel()}" in second
    assert torch.equal(made.get_state(), before)


def test_a_generator_draws_what_the_default_one_does():
    openreg.manual_seed(3)
    assert draw() == draw(generator=generator(3))


def test_a_state_moves_to_another_generator():
    first = generator(1)
    draw(generator=first)
    second, clone = generator(), first.clone_state()
    second.set_state(first.get_state())
    numbers = draw(generator=first)
    assert draw(generator=second) == draw(generator=clone) == numbers


def test_a_clone_goes_its_own_way():
    first = generator(1)
    clone = first.clone_state()
    assert draw(generator=clone) == draw(generator=generator(1))
    clone.manual_seed(2)
    assert first.initial_seed() == 1
    assert draw(generator=first) == draw(generator=generator(1))


def test_the_only_offset_is_zero():
    first = generator(1)
    draw(generator=first)
    state = first.get_state()
    first.set_offset(0)
    assert first.get_offset() == 0
    with pytest.raises(RuntimeError, match="no offset, but got 8; use set_state"):
        first.set_offset(8)
    assert torch.equal(first.get_state(), state)


def test_a_generator_can_be_pickled():
    first = generator(4)
    draw(generator=first)
    second = pickle.loads(pickle.dumps(first))
    assert second.device == first.device
    assert draw(generator=second) == draw(generator=first)


def test_a_generator_of_the_cpu_is_refused():
    with pytest.raises(RuntimeError, match="'openreg' device type .* found 'cpu'"):
        draw(generator=torch.Generator("cpu"))


def test_the_cpu_refuses_a_generator_of_the_device(fork_python):
    # In a child: the kernel that gets to see both could crash.
    (told,) = fork_python(["torch.rand(4, generator=torch.Generator('openreg'))"])
    assert "'cpu' device type for generator but found 'openreg'" in told


# --- states that are shared ----------------------------------------------------


def test_a_graph_safe_state_is_shared():
    first, expected = generator(1), generator(1)
    second = first.graphsafe_get_state()
    assert second.device == first.device
    for drawer in (first, second, first):
        assert draw(generator=drawer) == draw(generator=expected)
    second.manual_seed(5)
    assert first.initial_seed() == 5


def test_a_graph_safe_state_is_lent_and_taken_back():
    first, second = generator(1), generator(2)
    own = first.graphsafe_get_state()
    first.graphsafe_set_state(second)
    assert draw(generator=first) == draw(generator=generator(2))
    first.graphsafe_set_state(own)
    assert draw(generator=first) == draw(generator=generator(1))
    assert draw(generator=second) != draw(generator=generator(2))


def test_the_default_generators_state_can_be_lent_too():
    default = openreg.default_generators[0]
    own = default.graphsafe_get_state()
    default.graphsafe_set_state(generator(3))
    assert draw() == draw(generator=generator(3))
    default.graphsafe_set_state(own)
    openreg.manual_seed(4)
    assert own.initial_seed() == 4


def test_a_state_of_the_cpu_is_refused_and_changes_nothing():
    first = generator(1)
    with pytest.raises(RuntimeError, match="'openreg' device type .* found 'cpu'"):
        first.graphsafe_set_state(torch.Generator())
    assert first.initial_seed() == 1


def test_a_state_is_lent_without_waiting_and_queued_work_keeps_its_own(hold):
    torch.randn(100_000, device="openreg")  # the first call is not queued
    first = generator(1)
    gate = hold(openreg.current_stream())
    before = torch.randn(100_000, device="openreg", generator=first)
    first.graphsafe_set_state(generator(2))
    after = torch.randn(100_000, device="openreg", generator=first)
    assert not openreg.current_stream().query()
    gate.open()
    for seed, numbers in ((1, before), (2, after)):
        expected = torch.randn(100_000, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(numbers.cpu(), expected)
