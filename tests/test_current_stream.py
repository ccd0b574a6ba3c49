"""The current stream: contexts, threads, and who may become it."""

import threading

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_before")


def test_contexts_nest_and_end_in_order():
    current = torch.openreg.current_stream
    a, b = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(a):
        with torch.openreg.stream(b):
            assert current() == b
            with torch.openreg.stream(None):
                assert current() == b
        assert current() == a
    assert current() == torch.openreg.default_stream()


def test_a_context_ends_with_an_exception():
    with pytest.raises(KeyError), torch.openreg.stream(torch.openreg.Stream()):
        raise KeyError
    assert torch.openreg.current_stream() == torch.openreg.default_stream()


def test_a_context_can_be_entered_inside_itself():
    stream = torch.openreg.Stream()
    context = torch.openreg.stream(stream)
    assert isinstance(context, torch.openreg.StreamContext)
    with context:
        with context:
            assert torch.openreg.current_stream() == stream
        assert torch.openreg.current_stream() == stream
    assert torch.openreg.current_stream() == torch.openreg.default_stream()


def test_a_stream_of_another_device_brings_its_device_along():
    here, before = torch.openreg.Stream(0), torch.openreg.Stream(1)
    there = torch.openreg.Stream(1)
    torch.openreg.set_stream(before)
    torch.openreg.set_stream(here)
    assert torch.openreg.current_device() == 0
    with torch.openreg.stream(there):
        assert torch.openreg.current_device() == 1
        assert torch.openreg.current_stream() == there
        assert torch.openreg.current_stream(0) == here
    assert torch.openreg.current_device() == 0
    assert torch.openreg.current_stream() == here
    assert torch.openreg.current_stream(1) == before


def test_each_thread_has_a_current_stream_of_its_own():
    mine, theirs = torch.openreg.Stream(), torch.openreg.Stream()
    torch.openreg.set_stream(mine)
    seen = []

    def work():
        seen.append(torch.openreg.current_stream())
        torch.openreg.set_stream(theirs)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [torch.openreg.default_stream()]
    assert torch.openreg.current_stream() == mine


def test_a_stream_is_a_context_itself():
    for stream in (torch.openreg.Stream(), torch.Stream(device="openreg")):
        with stream:
            assert torch.openreg.current_stream() == stream
        assert torch.openreg.current_stream() == torch.openreg.default_stream()


def test_the_accelerator_sets_the_same_stream():
    stream = torch.openreg.Stream(1)
    torch.accelerator.set_stream(stream)
    assert torch.openreg.current_stream() == stream
    assert torch.openreg.current_device() == 1
    assert torch.accelerator.current_stream() == stream
    with pytest.raises(TypeError):
        torch.accelerator.set_stream(None)


def test_setting_no_stream_changes_nothing():
    stream = torch.openreg.Stream()
    torch.openreg.set_stream(stream)
    torch.openreg.set_stream(None)
    assert torch.openreg.current_stream() == stream


@pytest.mark.parametrize(
    ("stream", "error", "text"),
    [
        ("s", AttributeError, "'str' object has no attribute"),
        (0, AttributeError, "'int' object has no attribute"),
        (torch.Stream(device="cpu"), RuntimeError, "stream of an openreg device"),
    ],
)
def test_only_streams_of_the_device_become_current(stream, error, text):
    with pytest.raises(error, match=text):
        torch.openreg.set_stream(stream)
    with pytest.raises((error, ValueError)):
        torch.openreg.stream(stream).__enter__()
    assert torch.openreg.current_stream() == torch.openreg.default_stream()


def test_an_event_is_not_a_stream():
    with pytest.raises(AttributeError, match="'Event' object has no .* 'stream_id'"):
        torch.openreg.stream(torch.openreg.Event()).__enter__()


@pytest.mark.parametrize(
    "which", [torch.openreg.current_stream, torch.openreg.default_stream]
)
def test_streams_are_asked_for_by_an_existing_device(which):
    assert which(1).device_index == 1
    assert which(-1).device_index == 0
    for device, error in [(2, RuntimeError), (300, RuntimeError), ("cpu", ValueError)]:
        with pytest.raises(error):
            which(device)
