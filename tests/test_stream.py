"""Streams: identity, the pool, waiting."""

import copy
import ctypes
import pickle
import time
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.usefixtures("as_before")

DEVICES = ["openreg:0", "openreg:1"]
MS = int(1.98e6)  # cycles of _sleep()


def device_type():
    return torch.openreg.default_stream().device_type


@pytest.fixture
def created(libopenreg):
    """The handle of a stream that libopenreg made on device 0."""
    handle = ctypes.c_void_p()
    assert libopenreg.orStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
    yield handle.value
    libopenreg.orStreamDestroy(handle)


# --- identity -----------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_starts_on_its_default_stream(device):
    default = torch.openreg.default_stream(device)
    assert torch.openreg.current_stream(device) == default
    assert default.stream_id == 0
    assert default.device == torch.device(device)
    assert default.priority == 0
    assert default.query() is True


@pytest.mark.parametrize("device", [1, "openreg:1", torch.device("openreg:1")])
def test_a_stream_is_made_on_the_device_asked_for(device):
    stream = torch.openreg.Stream(device)
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("openreg:1")
    assert stream.device_index == 1
    assert stream != torch.openreg.default_stream(1)
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("device", [None, -1, "openreg"])
def test_a_stream_without_a_device_is_of_the_current_one(device):
    with torch.openreg.device(1):
        assert torch.openreg.Stream(device=device).device_index == 1


def test_streams_are_compared_by_value():
    stream = torch.openreg.Stream()
    again = torch.openreg.Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )
    assert again == stream
    assert {again, stream} == {stream}
    assert stream != torch.openreg.Stream()
    assert stream != 0
    assert stream != "stream"


def test_a_generic_stream_with_the_same_id_is_the_same_stream():
    generic = torch.accelerator.current_stream()
    own = torch.openreg.current_stream()
    assert generic == own
    assert own == generic
    assert hash(generic) == hash(own)


def test_streams_of_two_devices_differ():
    first, second = map(torch.openreg.default_stream, DEVICES)
    assert first != second
    assert first.openreg_stream != second.openreg_stream


def test_the_handle_is_what_libopenreg_takes(libopenreg):
    stream = torch.openreg.Stream(1, priority=-2)
    assert stream.openreg_stream == stream.native_handle != 0
    device, priority = ctypes.c_int(), ctypes.c_int()
    # `stream` itself as an argument: that is what _as_parameter_ is for.
    assert libopenreg.orStreamGetDevice(stream, ctypes.byref(device)) == 0
    assert libopenreg.orStreamGetPriority(stream, ctypes.byref(priority)) == 0
    assert (device.value, priority.value) == (1, -2)


def test_the_text_of_a_stream_has_its_device_and_handle():
    stream = torch.openreg.Stream(1)
    assert repr(stream) == (
        f"<torch.openreg.Stream device=openreg:1 "
        f"openreg_stream={stream.openreg_stream:#x}>"
    )


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_cannot_be_copied(way):
    with pytest.raises(TypeError, match="cannot pickle 'Stream' object"):
        way(torch.openreg.Stream())


# --- pool and priority --------------------------------------------------------


@pytest.mark.parametrize(
    "make", [torch.openreg.Stream, lambda: torch.Stream(device="openreg")]
)
def test_the_pool_hands_out_32_streams_in_turn(make):
    made = [make() for _ in range(70)]
    assert len(set(made)) == 32
    assert made[32] == made[0]


def test_each_priority_has_a_pool_of_its_own():
    normal = {torch.openreg.Stream() for _ in range(32)}
    high = {torch.openreg.Stream(priority=-1) for _ in range(32)}
    assert len(normal | high) == 64


def test_priorities_are_clamped_to_the_range():
    least, greatest = torch.openreg.Stream.priority_range()
    assert (least, greatest) == (0, -3)
    for priority, expected in [(0, 0), (-1, -1), (-3, -3), (-100, -3), (5, 0)]:
        assert torch.openreg.Stream(priority=priority).priority == expected


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"device": 2}, torch.AcceleratorError, "invalid device ordinal"),
        ({"device": "cpu"}, ValueError, "Expected an openreg device"),
        ({"device": 0.5}, ValueError, "Expected a torch.device"),
        ({"priority": "high"}, TypeError, "priority"),
        ({"priority": None}, TypeError, "priority"),
        ({"nosuch": 1}, TypeError, "nosuch"),
        ({"stream_id": 1}, TypeError, "stream_id"),
        ({"stream_id": "a", "device_index": 0, "device_type": 20}, TypeError, "str"),
    ],
)
def test_a_stream_refuses_wrong_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        torch.openreg.Stream(**arguments)
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.query(),
        lambda stream: stream.synchronize(),
        lambda stream: stream.priority,
        lambda stream: stream.record_event(),
        lambda stream: torch.openreg.set_stream(stream),
        lambda stream: torch.openreg.stream(stream).__enter__(),
    ],
    ids=["query", "synchronize", "priority", "record_event", "set_stream", "stream"],
)
def test_an_id_that_names_no_stream_is_an_error_not_a_crash(use):
    made_up = torch.openreg.Stream(
        stream_id=123456, device_index=0, device_type=device_type()
    )
    with pytest.raises(torch.AcceleratorError, match="not a live stream"):
        use(made_up)
    assert torch.openreg.current_stream() == torch.openreg.default_stream()


# --- streams from elsewhere ---------------------------------------------------


def test_an_external_stream_is_used_like_our_own(created, hold):
    stream = torch.openreg.ExternalStream(created)
    assert isinstance(stream, torch.openreg.Stream)
    assert stream.openreg_stream == created
    with torch.openreg.stream(stream):
        assert torch.openreg.current_stream().openreg_stream == created
    gate = hold(stream)
    assert not stream.query()
    gate.open()
    stream.synchronize()
    assert stream.query()


def test_the_default_stream_from_elsewhere_is_the_default_stream():
    default = torch.openreg.default_stream(1)
    stream = torch.openreg.ExternalStream(default.openreg_stream, device=1)
    assert stream == default


def test_handle_0_is_the_default_stream():
    with torch.openreg.stream(torch.openreg.Stream()):
        assert torch.openreg.ExternalStream(0) == torch.openreg.default_stream()


@pytest.mark.parametrize(
    ("handle", "error", "text"),
    [
        (0x1234, torch.AcceleratorError, "not a live stream"),
        ("handle", TypeError, "handle"),
        (-1, TypeError, "handle"),
        (None, TypeError, "handle"),
    ],
)
def test_an_external_stream_needs_a_live_handle(handle, error, text):
    with pytest.raises(error, match=text):
        torch.openreg.ExternalStream(handle)


def test_work_on_a_destroyed_stream_is_refused(libopenreg):
    handle = ctypes.c_void_p()
    assert libopenreg.orStreamCreate(ctypes.byref(handle)) == 0
    stream = torch.openreg.ExternalStream(handle.value)
    assert libopenreg.orStreamDestroy(handle) == 0
    x = torch.ones(4, device="openreg")
    with torch.openreg.stream(torch.openreg.Stream()):
        with pytest.raises(torch.AcceleratorError, match="was it destroyed"):
            stream.synchronize()
        with pytest.raises(torch.AcceleratorError, match="was it destroyed"):
            torch.openreg.set_stream(stream)
    assert (x + 1).tolist() == [2] * 4  # nothing is broken


def test_an_external_stream_needs_its_own_device(created):
    with pytest.raises(RuntimeError, match="openreg:0, not to openreg:1"):
        torch.openreg.ExternalStream(created, device=1)


# --- waiting ------------------------------------------------------------------


def test_a_stream_is_busy_until_its_work_has_finished(hold):
    stream = torch.openreg.Stream()
    gate = hold(stream)
    assert stream.query() is False
    assert torch.openreg.default_stream().query() is True
    gate.open()
    stream.synchronize()
    assert stream.query() is True


def test_a_stream_is_waited_for_alone(hold):
    busy, other = torch.openreg.Stream(), torch.openreg.Stream()
    hold(busy)
    torch.openreg._sleep(0)
    with torch.openreg.stream(other):
        torch.openreg._sleep(0)
    other.synchronize()
    torch.openreg.default_stream().synchronize()
    assert not busy.query()


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_is_waited_for_alone(device, hold):
    (other,) = set(DEVICES) - {device}
    stream = torch.openreg.Stream(other)
    hold(stream)
    torch.openreg.synchronize(device)
    assert not stream.query()
    assert torch.openreg.current_device() == 0


# The one thread that could open the gate needs Python's lock for it, and the
# interval keeps it from getting the lock before the wait has begun.
WAITING = """
import sys, threading, torch
sys.path.insert(0, {tests!r})
from gate import Gate
stream = torch.openreg.current_stream()
gate, go = Gate(stream), threading.Event()
opener = threading.Thread(target=lambda: (go.wait(), gate.open()))
opener.start()
sys.setswitchinterval(1000)
go.set()
{wait}
assert stream.query()
opener.join()
assert not gate.is_late
"""


@pytest.mark.parametrize(
    "wait",
    [
        "torch.openreg.synchronize()",
        "torch.accelerator.synchronize()",
        "torch.accelerator.synchronize(0)",  # no tensor has told torch of the device
        "stream.synchronize()",
        "torch.accelerator.current_stream().synchronize()",
        "stream.record_event().synchronize()",
    ],
)
def test_waiting_lets_other_threads_run(wait, run_python):
    code = WAITING.format(tests=str(Path(__file__).parent), wait=wait)
    run_python(code, timeout=120)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "wait",
    [
        lambda stream, other: stream.wait_stream(other),
        lambda stream, other: stream.wait_event(other.record_event()),
        lambda stream, other: other.record_event().wait(stream),
        lambda stream, other: torch.Stream.wait_stream(stream, other),
    ],
    ids=["wait_stream", "wait_event", "event.wait", "torch.Stream"],
)
def test_a_stream_waits_for_another_without_blocking_the_host(wait, device, hold):
    stream, other = torch.openreg.Stream(device), torch.openreg.Stream(0)
    gate = hold(other)
    wait(stream, other)
    assert not stream.query()
    gate.open()
    stream.synchronize()
    assert other.query()


@pytest.mark.parametrize("method", ["wait_stream", "wait_event", "record_event"])
def test_waiting_for_something_else_is_an_error(method):
    stream = torch.openreg.Stream()
    for thing in ("s", 1, *([] if method == "record_event" else [None])):
        with pytest.raises(AttributeError, match="object has no attribute"):
            getattr(stream, method)(thing)


# --- _sleep -------------------------------------------------------------------


def test_sleep_keeps_the_current_stream_busy_and_not_the_host():
    stream = torch.openreg.Stream()
    start, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
    with torch.openreg.stream(stream):
        start.record()
        before = time.perf_counter()
        torch.openreg._sleep(100 * MS)
        host = 1e3 * (time.perf_counter() - before)
        end.record()
        assert not stream.query()
    end.synchronize()
    # No upper bound: others may use the machine.
    assert start.elapsed_time(end) >= 99
    assert host < 99


@pytest.mark.parametrize(
    ("cycles", "error", "text"),
    [
        (-1, ValueError, "at least 0, but got -1"),
        (1.5, TypeError, "cycles"),
        ("long", TypeError, "cycles"),
        (None, TypeError, "cycles"),
        (1 << 63, TypeError, "cycles"),
    ],
)
def test_sleep_refuses_bad_durations(cycles, error, text):
    with pytest.raises(error, match=text):
        torch.openreg._sleep(cycles)
    assert torch.openreg.current_stream().query()
