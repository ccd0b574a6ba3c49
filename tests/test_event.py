"""Events: recording, waiting, time."""

import copy
import ctypes

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_before")

MS = int(1.98e6)  # cycles of _sleep()


def generic_event(**options):
    return torch.Event(device="openreg", **options)


EVENTS = [torch.openreg.Event, generic_event]


# --- identity -----------------------------------------------------------------


def test_a_new_event_has_no_handle_and_no_device():
    event = torch.openreg.Event()
    assert isinstance(event, torch.Event)
    assert event.event_id == event.openreg_event == 0
    assert event.device is None
    assert repr(event) == "<torch.openreg.Event uninitialized>"


def test_a_recorded_event_has_the_handle_libopenreg_takes(libopenreg):
    event = torch.openreg.Stream(1).record_event()
    assert type(event) is torch.openreg.Event
    assert event.device == torch.device("openreg:1")
    assert repr(event) == f"<torch.openreg.Event {event.openreg_event:#x}>"
    event.synchronize()
    assert libopenreg.orEventQuery(event) == 0
    assert libopenreg.orEventQuery(ctypes.c_void_p(event.event_id)) == 0


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_an_event_cannot_be_copied(way):
    with pytest.raises(TypeError, match="cannot pickle 'Event' object"):
        way(torch.openreg.Event())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"nosuch": True}, TypeError, "unexpected keyword argument 'nosuch'"),
        ({"enable_timing": "no"}, TypeError, "enable_timing"),
        ({"blocking": "no"}, TypeError, "blocking"),
    ],
)
def test_an_event_refuses_wrong_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        torch.openreg.Event(**arguments)


# --- record, query, wait ------------------------------------------------------


@pytest.mark.parametrize("make", EVENTS)
def test_an_unrecorded_event_is_done(make):
    event = make()
    assert event.query() is True
    event.synchronize()
    event.wait()
    torch.openreg.Stream().wait_event(event)


@pytest.mark.parametrize("make", EVENTS)
@pytest.mark.parametrize("timing", [True, False])
def test_an_event_is_done_when_the_work_before_it_is(make, timing, hold):
    event, stream = make(enable_timing=timing), torch.openreg.Stream()
    gate = hold(stream)
    event.record(stream)
    assert event.query() is False
    gate.open()
    event.synchronize()
    assert event.query() is True
    # Later work does not count.
    hold(stream)
    assert event.query() is True


@pytest.mark.parametrize("make", EVENTS)
def test_a_second_record_replaces_the_first(make, hold):
    event, stream = make(), torch.openreg.Stream()
    event.record(stream)
    event.synchronize()
    gate = hold(stream)
    event.record(stream)
    assert event.query() is False
    gate.open()
    event.synchronize()


@pytest.mark.parametrize("make", EVENTS)
def test_an_event_is_recorded_on_the_current_stream(make, hold):
    event, stream = make(), torch.openreg.Stream()
    gate = hold(stream)
    event.record()
    event.synchronize()  # of the default stream, which is idle
    with torch.openreg.stream(stream):
        event.record()
    assert not event.query()
    gate.open()


@pytest.mark.parametrize("make", EVENTS)
def test_the_current_stream_waits_for_an_event(make, hold):
    event, stream, other = make(), torch.openreg.Stream(), torch.openreg.Stream()
    gate = hold(other)
    event.record(other)
    with torch.openreg.stream(stream):
        event.wait()
    assert not stream.query()
    assert torch.openreg.default_stream().query()
    gate.open()
    stream.synchronize()


def test_a_wait_keeps_the_record_it_saw(hold):
    event, a, b = torch.openreg.Event(), torch.openreg.Stream(), torch.openreg.Stream()
    event.record(a)
    b.wait_event(event)
    hold(a)
    event.record(a)
    b.synchronize()
    assert not a.query()


def test_a_wait_before_the_record_waits_for_nothing(hold):
    event, a, b = torch.openreg.Event(), torch.openreg.Stream(), torch.openreg.Stream()
    hold(a)
    b.wait_event(event)
    event.record(a)
    b.synchronize()
    assert not event.query()


def test_a_stream_of_another_device_can_wait(hold):
    event, there = torch.openreg.Event(), torch.openreg.Stream(1)
    here = torch.openreg.Stream(0)
    gate = hold(here)
    event.record(here)
    there.wait_event(event)
    assert not there.query()
    gate.open()
    there.synchronize()
    assert event.query()


@pytest.mark.parametrize("make", EVENTS)
def test_an_event_stays_with_its_device(make):
    event = make()
    event.record(torch.openreg.Stream(0))
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record(torch.openreg.Stream(1))


def test_record_event_returns_the_event_it_was_given():
    stream = torch.openreg.Stream()
    for event in (torch.openreg.Event(), generic_event()):
        assert stream.record_event(event) is event


def test_an_event_may_go_before_its_work_has_finished(hold):
    stream, other = torch.openreg.Stream(), torch.openreg.Stream()
    gate = hold(stream)
    event = stream.record_event()
    other.wait_event(event)
    del event
    assert not other.query()
    gate.open()
    other.synchronize()


@pytest.mark.parametrize("method", ["record", "wait"])
@pytest.mark.parametrize("thing", ["s", 0, 1.5])
def test_an_event_needs_a_stream(method, thing):
    with pytest.raises(RuntimeError, match="expected stream to be a torch.Stream"):
        getattr(torch.openreg.Event(), method)(thing)


def test_an_event_needs_a_stream_of_the_device():
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        torch.openreg.Event().record(torch.Stream(device="cpu"))


# --- time ---------------------------------------------------------------------


@pytest.mark.parametrize("make", EVENTS)
def test_the_time_between_two_events_is_that_of_the_work(make):
    first, second, third = (make(enable_timing=True) for _ in range(3))
    first.record()
    torch.openreg._sleep(20 * MS)
    second.record()
    third.record()
    torch.openreg.synchronize()
    time = first.elapsed_time(second)
    assert type(time) is float
    assert time >= 19.9
    assert second.elapsed_time(first) == -time
    assert first.elapsed_time(first) == 0
    assert second.elapsed_time(third) >= 0
    total = time + second.elapsed_time(third)
    assert first.elapsed_time(third) == pytest.approx(total, abs=1e-2)


def test_events_of_both_classes_are_timed_together():
    ours = torch.openreg.Event(enable_timing=True)
    generic = generic_event(enable_timing=True)
    ours.record()
    generic.record()
    torch.openreg.synchronize()
    assert ours.elapsed_time(generic) >= 0


def elapsed(first, second, record=(True, True)):
    for event, recorded in zip((first, second), record, strict=True):
        if recorded:
            event.record()
    torch.openreg.synchronize()
    return first.elapsed_time(second)


@pytest.mark.parametrize("make", EVENTS)
def test_time_needs_events_made_for_it(make):
    for timed in [(False, False), (True, False), (False, True)]:
        with pytest.raises(ValueError, match="'enable_timing=True'"):
            elapsed(*(make(enable_timing=t) for t in timed))


@pytest.mark.parametrize("make", EVENTS)
def test_time_needs_recorded_events(make):
    for record in [(False, False), (True, False), (False, True)]:
        with pytest.raises(ValueError, match="must be recorded"):
            elapsed(*(make(enable_timing=True) for _ in range(2)), record)


@pytest.mark.parametrize("make", EVENTS)
def test_time_needs_finished_work(make, hold):
    first, second = (make(enable_timing=True) for _ in range(2))
    first.record()
    gate = hold(torch.openreg.current_stream())
    second.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        first.elapsed_time(second)
    gate.open()
    second.synchronize()
    assert first.elapsed_time(second) > 0


def test_time_needs_one_device():
    events = [torch.openreg.Event(enable_timing=True) for _ in range(2)]
    for index, event in enumerate(events):
        event.record(torch.openreg.default_stream(index))
        event.synchronize()
    with pytest.raises(torch.AcceleratorError, match="different devices|device"):
        events[0].elapsed_time(events[1])


@pytest.mark.parametrize("thing", [None, 1, "e", torch.openreg.default_stream()])
def test_time_needs_another_event(thing):
    with pytest.raises(RuntimeError, match="expected other to be a torch.Event"):
        torch.openreg.Event(enable_timing=True).elapsed_time(thing)
