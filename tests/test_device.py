"""Devices: which is current, what they are like."""

import ast
import inspect
import threading
from pathlib import Path

import pytest
import torch

import torch_openreg
from torch_openreg import _C
from torch_openreg.openreg import _lazy

pytestmark = pytest.mark.usefixtures("as_before")

BAD_INDEX = (torch.AcceleratorError, "invalid device ordinal")
NOT_OURS = (ValueError, "Expected an openreg device, but got: cpu")
NO_INDEX = (ValueError, "Expected a torch.device with a specified index")
UNKNOWN = (RuntimeError, "device type at start of device string")


def in_thread(function):
    box = []
    thread = threading.Thread(target=lambda: box.append(function()))
    thread.start()
    thread.join()
    return box[0]


# --- the current device -------------------------------------------------------


@pytest.mark.parametrize(
    "device", [1, "openreg:1", torch.device("openreg", 1), torch.openreg.device(1)]
)
def test_set_device_takes_every_way_to_name_one(device):
    torch.openreg.set_device(device)
    assert torch.openreg.current_device() == 1
    assert torch.accelerator.current_device_index() == 1


def test_a_negative_index_changes_nothing():
    torch.openreg.set_device(1)
    torch.openreg.set_device(-1)
    with torch.openreg.device(-1):
        assert torch.openreg.current_device() == 1
    torch.openreg.synchronize(-1)


BAD_DEVICES = [
    (2, *BAD_INDEX),
    (127, *BAD_INDEX),
    # These would name device 0 or 1 if they were cut to eight bits.
    (256, RuntimeError, "invalid device ordinal.* value 256 is out"),
    (1 << 40, RuntimeError, "invalid device ordinal"),
    ("openreg:2", *BAD_INDEX),
    ("cpu", *NOT_OURS),
    (torch.device("cpu"), *NOT_OURS),
    ("nosuch", *UNKNOWN),
    (1.0, *NO_INDEX),
    ([], *NO_INDEX),
]


@pytest.mark.parametrize(("device", "error", "text"), BAD_DEVICES)
@pytest.mark.parametrize(
    "use",
    [
        torch.openreg.set_device,
        torch.openreg.synchronize,
        torch.openreg.mem_get_info,
        lambda device: torch.openreg.device(device).__enter__(),
        lambda device: torch.openreg.Stream(device=device),
    ],
    ids=["set_device", "synchronize", "mem_get_info", "device", "Stream"],
)
def test_a_wrong_device_is_refused(use, device, error, text):
    with pytest.raises(error, match=text):
        use(device)
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("device", [None, "openreg", torch.device("openreg")])
def test_set_device_needs_an_index(device):
    with pytest.raises(*NO_INDEX[:1], match=NO_INDEX[1]):
        torch.openreg.set_device(device)


def test_every_thread_has_a_device_of_its_own():
    torch.openreg.set_device(1)
    assert in_thread(torch.openreg.current_device) == 0
    in_thread(lambda: torch.openreg.set_device(0))
    assert torch.openreg.current_device() == 1


def test_the_context_puts_the_device_back():
    with torch.openreg.device(1):
        assert torch.openreg.current_device() == 1
        with torch.openreg.device("openreg:0"):
            assert torch.openreg.current_device() == 0
        assert torch.openreg.current_device() == 1
        with torch.openreg.device(None):
            assert torch.openreg.current_device() == 1
    assert torch.openreg.current_device() == 0


def test_the_context_puts_the_device_back_after_an_exception():
    with pytest.raises(KeyError), torch.openreg.device(1):
        raise KeyError
    assert torch.openreg.current_device() == 0


def test_a_context_can_be_entered_again():
    context = torch.openreg.device(1)
    for _ in range(2):
        with context:
            assert torch.openreg.current_device() == 1
        assert torch.openreg.current_device() == 0


def test_device_of_follows_a_tensor_and_a_storage():
    x = torch.empty(1, device="openreg:1")
    for thing in (x, x.untyped_storage()):
        with torch.openreg.device_of(thing):
            assert torch.openreg.current_device() == 1
        assert torch.openreg.current_device() == 0


def test_device_of_something_on_the_host_changes_nothing():
    torch.openreg.set_device(1)
    for thing in (torch.empty(1), torch.empty(1).untyped_storage()):
        with torch.openreg.device_of(thing):
            assert torch.openreg.current_device() == 1


def test_device_of_refuses_objects_without_a_device():
    with pytest.raises(AttributeError):
        torch.openreg.device_of("openreg:0")


@pytest.mark.parametrize(
    "exchange", [torch.openreg._exchange_device, torch.openreg._maybe_exchange_device]
)
def test_exchanging_returns_the_device_before(exchange):
    assert exchange(1) == 0
    assert exchange(-1) == -1
    assert exchange(0) == 1
    with pytest.raises(BAD_INDEX[0], match=BAD_INDEX[1]):
        exchange(2)
    assert torch.openreg.current_device() == 0


def test_the_guard_of_pytorch_changes_the_device():
    with torch.openreg._DeviceGuard(1):
        assert torch.openreg.current_device() == 1
    assert torch.openreg.current_device() == 0


def test_an_index_is_made_of_every_device_argument():
    get = torch.openreg._utils._get_device_index
    torch.openreg.set_device(1)
    assert get(0) == 0
    assert get("openreg:0") == 0
    assert get(torch.openreg.device(0)) == 0
    assert get(None, optional=True) == 1
    assert get("openreg", optional=True) == 1
    assert get("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="cuda:0"):
        get("cuda:0", optional=True, allow_cpu=True)


# --- torch and the module -----------------------------------------------------


def test_the_accelerator_is_openreg():
    assert torch.accelerator.current_accelerator() == torch.device("openreg")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    assert (
        torch.float64 in torch.accelerator.get_device_capability()["supported_dtypes"]
    )


def test_the_accelerator_changes_the_same_device():
    torch.accelerator.set_device_index(1)
    assert torch.openreg.current_device() == 1
    with torch.accelerator.device_index(0):
        assert torch.openreg.current_device() == 0
    assert torch.openreg.current_device() == 1
    torch.accelerator.synchronize()
    with pytest.raises(BAD_INDEX[0], match=BAD_INDEX[1]):
        torch.accelerator.set_device_index(2)


def test_the_module_is_found_by_every_name():
    import torch.openreg.memory
    import torch.openreg.random
    import torch.openreg.streams

    assert torch.openreg is torch_openreg.openreg
    assert torch.get_device_module() is torch.openreg
    assert torch.get_device_module("openreg:1") is torch.openreg
    assert torch.openreg.streams.Stream is torch_openreg.openreg.streams.Stream


def test_torch_classes_have_methods_for_the_device():
    for owner in (
        torch.Tensor,
        torch.UntypedStorage,
        torch.nn.utils.rnn.PackedSequence,
    ):
        assert callable(owner.openreg)
        assert isinstance(inspect.getattr_static(owner, "is_openreg"), property)
    assert callable(torch.nn.Module.openreg)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="torch.openreg.*nosuch"):
        torch.openreg.nosuch


def test_the_stub_lists_what_the_library_has():
    stub = ast.parse(Path(torch_openreg.__file__).with_name("_C.pyi").read_text())
    defined = {
        node.name
        for node in stub.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    defined |= {n.target.id for n in stub.body if isinstance(n, ast.AnnAssign)}
    assert defined == {name for name in dir(_C) if not name.startswith("__")}


def test_the_count_is_asked_for_once(monkeypatch):
    monkeypatch.setattr(_lazy, "_count", 0)
    counts = [2]
    monkeypatch.setattr(_C, "_getDeviceCount", counts.pop)
    assert torch.openreg.device_count() == torch.openreg.device_count() == 2
