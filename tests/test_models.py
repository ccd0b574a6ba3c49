"""Nets of the usual kinds train as on the CPU: to the bit, RNNs to rounding."""

import os

import pytest
import torch
from models import TRAININGS, Gpt, words

STEPS = 20
EXACT = {"rtol": 0, "atol": 0}
# On an accelerator a recurrent cell is one operator, which adds in another order
# than the CPU's several, and each step carries the difference on.
ROUNDING = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
@pytest.mark.parametrize("name", TRAININGS)
def test_training_equals_the_cpus(name, device):
    training = TRAININGS[name]
    expected = training.run("cpu", STEPS)
    found = training.run(device, STEPS)
    tolerance = ROUNDING if name == "lstm" else EXACT
    torch.testing.assert_close(found, expected, **tolerance)
    assert expected[0][-1] < expected[0][0]


# --- generation ---------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt():
    """Doubles, so that a rounding hardly ever changes which word is drawn."""
    torch.manual_seed(0)
    return Gpt().double().eval(), words()[0]


def generate(gpt, device, cached):
    model, tokens = gpt
    torch.manual_seed(1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a small product has one, whatever the CPU uses
    found = model.to(device).generate(tokens.to(device), count=12, cached=cached)
    torch.set_num_threads(threads)
    return [part.cpu() for part in found]


@pytest.mark.parametrize("cached", [True, False])
def test_the_cpus_words_are_sampled(gpt, cached):
    expected = generate(gpt, "cpu", cached)
    assert expected[0].unique(dim=0).shape == expected[0].shape
    torch.testing.assert_close(generate(gpt, "openreg", cached), expected, **EXACT)


def test_a_cache_of_keys_and_values_changes_no_word(gpt):
    whole, cached = (generate(gpt, "openreg", cached) for cached in (False, True))
    assert torch.equal(cached[0], whole[0])
    # Matrices of other shapes are multiplied in another order.
    torch.testing.assert_close(cached[1], whole[1])


# --- other schedules and numbers of threads -----------------------------------

RUNS = [("async", 1), ("adversarial", 2)]
SLOW_RUNS = [("auto", 1), ("auto", 2), ("async", 2), ("adversarial", 1)]


@pytest.mark.skipif("OPENREG_SCHEDULE" in os.environ, reason="is such a run itself")
@pytest.mark.parametrize(
    "schedule, threads",
    [*RUNS, *(pytest.param(*run, marks=pytest.mark.slow) for run in SLOW_RUNS)],
)
def test_every_schedule_gives_the_same(schedule, threads, run_tests):
    """All of this file. The number of threads is set before there are any: those
    of autograd keep the number they began with, and sums depend on it."""
    variables = {"OPENREG_SCHEDULE": schedule, "OMP_NUM_THREADS": str(threads)}
    run_tests("-m", "not slow", __file__, **variables)
