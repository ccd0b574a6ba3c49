"""DLPack: openreg tensors in other libraries, and the other way round."""

import numpy as np
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, to_dlpack


def test_the_device_is_the_extension_device():
    with torch.openreg.device(1):
        x = torch.ones(2, device="openreg:1")
        assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
        assert torch.from_dlpack(x).device == x.device
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
    torch.float8_e4m3fn,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_comes_back_as_it_was(dtype):
    x = torch.arange(6, device="openreg").view(2, 3).t()[1:].to(dtype)
    back = torch.from_dlpack(x)
    assert back.data_ptr() == x.data_ptr()
    assert (back.dtype, back.shape, back.stride()) == (dtype, x.shape, x.stride())
    assert torch.equal(back.cpu(), x.cpu())


@pytest.mark.parametrize(
    "capsule",
    [to_dlpack, torch.Tensor.__dlpack__, lambda x: x.__dlpack__(max_version=(1, 0))],
    ids=["to_dlpack", "old", "versioned"],
)
def test_a_capsule_shares_the_memory_and_keeps_it(capsule):
    before = torch.openreg.memory_allocated()
    x = torch.zeros(3, device="openreg")
    held = capsule(x)
    del x
    assert torch.openreg.memory_allocated() == before + 512
    y = torch.from_dlpack(held)
    y += 1
    assert y.tolist() == [1, 1, 1]
    del y, held
    assert torch.openreg.memory_allocated() == before


def test_a_versioned_capsule_is_named_so():
    x = torch.zeros(3, device="openreg")
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))


def test_a_consumer_may_ask_for_a_copy_or_another_device():
    x = torch.ones(3, device="openreg")
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    there = torch.from_dlpack(x, device="cpu")
    assert there.device == torch.device("cpu") and there.tolist() == [1, 1, 1]
    moved = torch.from_dlpack(torch.ones(2), device="openreg")
    assert moved.device.type == "openreg" and moved.tolist() == [1, 1]
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)


# --- streams ------------------------------------------------------------------


def handle_of(stream):
    return stream.native_handle


def test_the_consumers_stream_waits_for_the_current_one(hold):
    x = torch.ones(2, device="openreg")
    consumer = torch.openreg.Stream()
    gate = hold(torch.openreg.current_stream())
    x.__dlpack__(stream=handle_of(consumer))
    assert not consumer.query()
    gate.open()
    consumer.synchronize()


@pytest.mark.parametrize("stream", [None, 1])
def test_no_stream_and_1_mean_the_default_one(stream, hold):
    x = torch.ones(2, device="openreg")
    side = torch.openreg.Stream()
    gate = hold(side)
    with torch.openreg.stream(side):
        x.__dlpack__(stream=stream)
    assert not torch.openreg.default_stream().query()
    gate.open()
    torch.openreg.default_stream().synchronize()


@pytest.mark.parametrize("given", [{}, {"stream": -1}, "its own"])
def test_nothing_waits_without_need(given, hold):
    x = torch.ones(2, device="openreg")
    torch.openreg.synchronize()
    side = torch.openreg.Stream()
    hold(side)
    with torch.openreg.stream(side):
        x.__dlpack__(**({"stream": handle_of(side)} if given == "its own" else given))
    assert torch.openreg.default_stream().query()


# --- refusals, in CUDA's words ------------------------------------------------

REFUSED = {
    "a string": ("s", TypeError, "stream must be ``int`` or ``none``"),
    "0": (0, AssertionError, "unsupported stream on OpenReg: 0."),
    "2": (2, BufferError, "per-thread default stream is not supported."),
    "no stream": (12345, torch.AcceleratorError, "invalid resource handle"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_stream_is_refused(name):
    stream, error, sentence = REFUSED[name]
    with pytest.raises(error) as caught:
        torch.ones(2, device="openreg").__dlpack__(stream=stream)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: x.requires_grad_(), "Can't export tensors that require gradient"),
        (lambda x: x.to(torch.cfloat).conj(), "conjugate bit"),
        (lambda x: x.to_sparse(), "layout other than torch.strided"),
    ],
    ids=["requires_grad", "conj", "sparse"],
)
def test_a_tensor_that_would_lose_something_is_refused(make, sentence):
    with pytest.raises(BufferError, match=sentence):
        make(torch.ones(2, device="openreg")).__dlpack__()


def test_a_tensor_of_another_device_is_refused():
    x = torch.ones(2, device="openreg:1")
    with pytest.raises(BufferError, match="Expected: 1. Current device: 0."):
        x.__dlpack__()


def test_numpy_takes_no_device_memory():
    x = torch.ones(2, device="openreg")
    # Which of the two depends on NumPy's version.
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device in"):
        np.from_dlpack(x)
    for convert in (torch.Tensor.numpy, np.asarray, lambda t: np.array([t, t])):
        with pytest.raises(TypeError, match="can't convert openreg:0 device type ten"):
            convert(x)
    assert x.numpy(force=True).tolist() == [1, 1]
    assert not hasattr(x, "__array_interface__")


class Counting(torch.Tensor):
    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.calls.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


def test_a_subclass_sees_the_call():
    x = torch.ones(2, device="openreg").as_subclass(Counting)
    Counting.calls.clear()
    assert x.__dlpack_device__()[0] == DLDeviceType.kDLExtDev
    x.__dlpack__()
    assert {"__dlpack_device__", "__dlpack__"} <= set(Counting.calls)
