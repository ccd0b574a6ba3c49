"""An allocation that fails, wherever it is, does no harm."""

import gc
import itertools
import threading

import pytest
import torch
from torch import nn

from torch_openreg.memory import failing_allocation


def test_the_nth_allocation_fails_once():
    with failing_allocation(2) as failure:
        kept = torch.ones(3, device="openreg")
        with pytest.raises(torch.OutOfMemoryError, match="OpenReg out of memory"):
            torch.empty(4, device="openreg")
        torch.empty(4, device="openreg")
    assert failure.happened
    assert kept.tolist() == [1, 1, 1]


def test_an_allocation_that_never_came_does_not_fail_later():
    with failing_allocation(2) as failure:
        torch.empty(4, device="openreg")
    assert not failure.happened
    torch.empty(4, device="openreg")
    torch.empty(4, device="openreg")


def test_other_devices_do_not_fail():
    with failing_allocation(1, "openreg:1") as failure:
        torch.empty(4, device="openreg:0")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(4, device="openreg:1")
    assert failure.happened


def test_the_failure_is_counted_and_observed():
    seen = []
    torch.openreg.memory.attach_out_of_memory_observer(lambda *args: seen.append(args))
    before = torch.openreg.memory_stats()["num_ooms"]
    with failing_allocation(1), pytest.raises(torch.OutOfMemoryError):
        torch.empty(4, device="openreg")
    assert torch.openreg.memory_stats()["num_ooms"] == before + 1
    assert len(seen) == 1


def test_numbers_of_allocations_start_at_one():
    with pytest.raises(ValueError, match="from 1 on, but got 0"):
        failing_allocation(0)


def test_an_output_inside_a_kernel_can_fail():
    """The kernel runs at once and makes its output itself."""
    x = torch.ones(4, device="openreg")
    torch.openreg.synchronize()
    with failing_allocation(1), pytest.raises(torch.OutOfMemoryError):
        x.cumsum(0)
    assert x.cumsum(0).tolist() == [1, 2, 3, 4]


# --- a training run -----------------------------------------------------------


def make_model(width):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 8 * 8, width),
        nn.Dropout(0.1),
        nn.GELU(),
        nn.Linear(width, 10),
    )


def train(width):
    """Losses of a few steps, all of it on the device."""
    torch.manual_seed(1)
    model = make_model(width).to("openreg")
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(2):
        x = torch.randn(16, 1, 8, 8).to("openreg")
        target = torch.randint(10, (16,)).to("openreg")
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


# Small work runs at once, larger work is queued.
@pytest.mark.parametrize("width", [8, 512])
def test_a_training_run_survives_a_failure_of_each_allocation(width):
    expected = train(width)
    gc.collect()
    before = torch.openreg.memory_allocated()
    for n in itertools.count(1):
        with failing_allocation(n) as failure:
            try:
                losses = train(width)
            except torch.OutOfMemoryError as error:
                assert "Tried to allocate" in str(error)
                losses = None
        torch.openreg.synchronize()
        assert torch.openreg.memory_allocated() == before, n
        if not failure.happened:
            break
        assert losses is None, n
        if n % 10 == 0:
            assert train(width) == expected
    assert n > 100
    assert losses == expected
    assert train(width) == expected


def test_a_failure_in_one_thread_is_not_the_others():
    """It is the n-th of all threads' allocations; one of them gets the error."""
    errors = []
    start = threading.Barrier(4)

    def work():
        start.wait()
        for _ in range(50):
            try:
                torch.ones(16, device="openreg")
            except torch.OutOfMemoryError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    with failing_allocation(100) as failure:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failure.happened
    assert len(errors) == 1
