"""Functions of libopenreg under torch.openreg: pinning, streams, codes, late calls."""

import ctypes

import pytest
import torch

m = torch.openreg


@pytest.fixture
def stream():
    """The handle of a stream that is not of torch's making."""
    place = ctypes.c_void_p()
    m.check_error(m.openregrt().orStreamCreate(ctypes.addressof(place)))
    yield place.value
    m.check_error(m.openregrt().orStreamDestroy(place.value))


def test_memory_that_exists_can_be_pinned():
    x = torch.arange(4.0)
    runtime = m.openregrt()
    m.check_error(runtime.orHostRegister(x.data_ptr(), x.nbytes, 0))
    assert x.is_pinned()
    on_device = x.to("openreg", non_blocking=True)
    m.check_error(runtime.orHostUnregister(x.data_ptr()))
    assert not x.is_pinned()
    assert on_device.tolist() == [0, 1, 2, 3]


def test_a_code_other_than_success_becomes_an_error():
    m.check_error(m.openregStatus.SUCCESS)
    code = m.openregrt().orHostUnregister(1 << 40)
    name = m.openregrt().orGetErrorName(code)
    assert name.startswith("orError")
    text = m.openregrt().orGetErrorString(code)
    with pytest.raises(m.OpenRegError, match=rf"^{text} \({code}\)$"):
        m.check_error(code)
    assert issubclass(m.OpenRegError, RuntimeError)


def test_not_ready_has_libopenregs_number():
    name = m.openregrt().orGetErrorName(m.openregStatus.ERROR_NOT_READY)
    assert name == "orErrorNotReady"


def test_a_foreign_stream_is_used_like_our_own(stream, hold):
    got = m.get_stream_from_external(stream)
    assert type(got) is m.Stream
    assert got.openreg_stream == stream
    assert got == m.ExternalStream(stream)
    x = torch.ones(2, device="openreg")
    m.synchronize()
    gate = hold(got)
    with m.stream(got):
        copy = x.clone()
        assert m.current_stream() == got
    assert not got.query()
    gate.open()
    got.synchronize()
    assert copy.tolist() == [1, 1]


def test_a_foreign_stream_belongs_to_its_device(stream):
    with pytest.raises(RuntimeError, match="belongs to openreg:0, not to openreg:1"):
        m.get_stream_from_external(stream, device=1)


def test_the_handle_0_is_the_default_stream():
    assert m.get_stream_from_external(0) == m.default_stream()
    assert m.ExternalStream(0, 1) == m.default_stream(1)


# --- calls put off until the device starts ---------------------------------------


def test_a_late_call_runs_when_the_device_starts_and_at_once_afterwards(run_python):
    code = """
import torch
m, seen = torch.openreg, []
m._lazy_call(lambda: seen.append(torch.ones(1, device="openreg").item()))
m._lazy_call(lambda: seen.append("second"), seed=True)
print(seen, m.is_initialized())
m.init()
print(seen, m.is_initialized())
m._lazy_call(lambda: seen.append("third"))
m.init()
print(seen)
"""
    assert run_python(code).splitlines() == [
        "[] False",
        "[1.0, 'second'] True",
        "[1.0, 'second', 'third']",
    ]


def test_a_late_call_that_fails_says_where_it_was_made(run_python):
    code = """
import torch
m, broken = torch.openreg, [True]
def put_off():
    m._lazy_call(lambda: 1 / 0 if broken else None)
put_off()
for _ in range(2):
    try:
        m.init()
    except m.DeferredOpenRegCallError as error:
        print("division by zero" in str(error), "in put_off" in str(error))
    print(m.is_initialized())
    broken.clear()
"""
    assert run_python(code).splitlines() == ["True True", "False", "True"]
