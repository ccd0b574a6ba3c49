"""The mode that reports calls which make the host wait."""

import threading
import warnings

import pytest
import torch

SENTENCE = "called a synchronizing OpenReg operation"
DEVICE = "openreg"

# Made before the mode is on: each returns a function to be called with it.
WAITING = {
    "item": lambda x: x.sum().item,
    "bool": lambda x: x.sum().bool().__bool__,
    "tolist": lambda x: x.tolist,
    "cpu": lambda x: x.cpu,
    "blocking copy to the device": lambda x: lambda: x.copy_(torch.ones(4)),
    "tensor from a list": lambda x: lambda: torch.tensor([1.0], device=DEVICE),
    "nonzero": lambda x: x.nonzero,
    "masked_select": lambda x: lambda mask=x > 0: x.masked_select(mask),
    "unique": lambda x: x.unique,
    "equal": lambda x: lambda y=x.clone(): torch.equal(x, y),
    "repeat_interleave": lambda x: lambda n=x.long(): x.repeat_interleave(n),
    "stream": lambda x: torch.openreg.current_stream().synchronize,
    "torch.Stream": lambda x: torch.accelerator.current_stream().synchronize,
}

NOT_WAITING = {
    "arithmetic": lambda x: lambda: x.add_(1).matmul(x),
    "an operator without a queued form": lambda x: lambda m=x.diag(): m.logdet(),
    "an index": lambda x: lambda i=x.long(): x[i - 1],
    "copy on the device": lambda x: x.clone,
    "non_blocking copy": lambda x: (
        lambda pinned=torch.ones(4).pin_memory(): x.copy_(pinned, non_blocking=True)
    ),
    "device": lambda x: torch.openreg.synchronize,
    "event": lambda x: torch.openreg.current_stream().record_event().synchronize,
    "query": lambda x: torch.openreg.current_stream().query,
    "random state": lambda x: torch.openreg.get_rng_state,
    "factory": lambda x: lambda: torch.zeros(4, device=DEVICE),
}


@pytest.fixture
def x():
    return torch.ones(4, device=DEVICE)


@pytest.fixture(autouse=True)
def off():
    yield
    torch.openreg.set_sync_debug_mode(0)


def test_the_mode_is_off_at_first_and_can_be_set_by_number_or_name():
    assert torch.openreg.get_sync_debug_mode() == 0
    for number, name in enumerate(["default", "warn", "error"]):
        torch.openreg.set_sync_debug_mode(number)
        assert torch.openreg.get_sync_debug_mode() == number
        torch.openreg.set_sync_debug_mode(name)
        assert torch.openreg.get_sync_debug_mode() == number


@pytest.mark.parametrize("mode", [-1, 3, 7, "loud", ""])
def test_an_unknown_mode_is_refused_and_changes_nothing(mode):
    torch.openreg.set_sync_debug_mode(1)
    with pytest.raises(RuntimeError, match=f"invalid value of debug_mode.*{mode}"):
        torch.openreg.set_sync_debug_mode(mode)
    assert torch.openreg.get_sync_debug_mode() == 1


@pytest.mark.parametrize("name", WAITING)
def test_a_call_that_waits_warns_or_fails(name, x):
    call = WAITING[name](x)
    torch.openreg.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=SENTENCE):
        call()
    torch.openreg.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=SENTENCE):
        call()
    torch.openreg.set_sync_debug_mode("default")
    call()


@pytest.mark.parametrize("name", NOT_WAITING)
def test_a_call_that_does_not_wait_on_a_gpu_is_let_through(name, x):
    call = NOT_WAITING[name](x)
    torch.openreg.set_sync_debug_mode("error")
    call()


def test_a_mask_as_an_index_is_found_while_the_device_is_busy(x, hold):
    mask = x > 0
    assert x[mask].tolist() == [1, 1, 1, 1]
    gate = hold(torch.openreg.current_stream())
    torch.openreg.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=SENTENCE):
        x[mask]
    gate.open()
    torch.openreg.synchronize()
    with pytest.raises(RuntimeError, match=SENTENCE):
        x[mask]  # as on a GPU: how many there are is data


def test_a_refused_copy_leaves_its_destination_alone(x):
    torch.openreg.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=SENTENCE):
        x.copy_(torch.zeros(4))
    torch.openreg.set_sync_debug_mode("default")
    assert x.tolist() == [1, 1, 1, 1]


def test_a_whole_training_step_does_not_wait():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).to(DEVICE)
    optimizer = torch.optim.Adam(net.parameters(), foreach=True, capturable=True)
    data = torch.ones(2, 4, device=DEVICE)
    torch.openreg.set_sync_debug_mode("error")
    for _ in range(2):
        optimizer.zero_grad()
        net(data).sum().backward()
        optimizer.step()


def test_the_mode_holds_for_all_threads(x):
    caught = []

    def wait():
        try:
            x.cpu()
        except RuntimeError as error:
            caught.append(str(error))

    torch.openreg.set_sync_debug_mode("error")
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert len(caught) == 1
    assert SENTENCE in caught[0]


def test_what_went_wrong_on_the_device_is_not_hidden(run_python):
    code = """
import torch
x = torch.ones(2, device="openreg")
index = torch.tensor([5], device="openreg")
torch.openreg.synchronize()
torch.openreg.set_sync_debug_mode("error")
x[index]
try:
    torch.openreg.synchronize()
except torch.AcceleratorError as error:
    print("device-side assert" in str(error))
"""
    assert run_python(code) == "True"


def test_warnings_come_each_time(x):
    torch.openreg.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x.cpu()
        x.cpu()
    assert len(caught) == 2
