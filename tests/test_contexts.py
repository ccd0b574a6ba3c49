"""Contexts of devices, streams and defaults, inside one another and on threads."""

import threading

import pytest
import torch

m = torch.openreg
pytestmark = pytest.mark.usefixtures("as_before")


def state():
    """The current device, and the current stream of each."""
    return m.current_device(), [m.current_stream(i) for i in range(m.device_count())]


@pytest.fixture(autouse=True)
def no_default_device():
    yield
    torch.set_default_device(None)


def contexts():
    """One of each kind, all on device 1 but for the last."""
    return [
        m.device(1),
        m.stream(m.Stream(1)),
        m.Stream(1),
        torch.accelerator.device_index(1),
        torch.Stream("openreg:1"),
        m.device_of(torch.ones(1, device="openreg:1")),
        m.stream(m.Stream(0)),
    ]


@pytest.mark.parametrize("outer", range(7))
@pytest.mark.parametrize("inner", range(7))
def test_any_two_nest_and_put_everything_back(outer, inner):
    before = state()
    with contexts()[outer]:
        between = state()
        assert m.current_device() == (outer != 6)
        with contexts()[inner]:
            assert m.current_device() == (inner != 6)
        assert state() == between
    assert state() == before


@pytest.mark.parametrize("which", range(7))
def test_an_exception_puts_everything_back(which):
    before = state()
    with pytest.raises(KeyError), contexts()[which], m.stream(m.Stream(0)):
        raise KeyError
    assert state() == before


@pytest.mark.parametrize("which", range(7))
def test_a_context_is_of_its_thread(which):
    before, seen = state(), []
    inside, checked = threading.Event(), threading.Event()

    def enter():
        with contexts()[which]:
            inside.set()
            assert checked.wait(60)
        seen.append(state())

    thread = threading.Thread(target=enter)
    thread.start()
    assert inside.wait(60)
    assert state() == before
    checked.set()
    thread.join()
    assert [device for device, _ in seen] == [0]


# --- where tensors are made without being told ----------------------------------


def made():
    return {
        str(torch.zeros(1).device),
        str(torch.tensor([1]).device),
        str(torch.nn.Linear(1, 1).weight.device),
        str(torch.randperm(3).device),
    }


def test_the_default_device_is_where_factories_make_tensors():
    torch.set_default_device("openreg:1")
    assert made() == {"openreg:1"}
    assert torch.get_default_device() == torch.device("openreg:1")
    torch.set_default_device("openreg")
    assert made() == {"openreg:0"}
    with m.device(1):
        assert made() == {"openreg:1"}
    torch.set_default_device(None)
    assert made() == {"cpu"}


def test_a_device_is_a_context_for_factories():
    with torch.device("openreg:1"):
        assert made() == {"openreg:1"}
        with torch.device("cpu"):
            assert made() == {"cpu"}
        with m.stream(m.Stream(0)):
            assert made() == {"openreg:1"}
        assert m.current_device() == 0
    assert made() == {"cpu"}
    with pytest.raises(KeyError), torch.device("openreg"):
        raise KeyError
    assert made() == {"cpu"}


def test_the_default_device_is_of_its_thread():
    torch.set_default_device("openreg")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(made()))
    thread.start()
    thread.join()
    assert seen == [{"cpu"}]
    assert made() == {"openreg:0"}


def test_a_device_that_does_not_exist_is_refused_where_it_is_used():
    with pytest.raises(RuntimeError, match="openreg:2|2.*not in|out of"):
        with torch.device("openreg:2"):
            torch.zeros(1)
    assert made() == {"cpu"}
