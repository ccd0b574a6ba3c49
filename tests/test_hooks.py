"""What PyTorch asks a backend outside of operators, seen from Python."""

import ctypes
import gc

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.usefixtures("as_before")

accelerator = torch.accelerator
MiB = 1 << 20


# --- torch.accelerator --------------------------------------------------------


def test_openreg_is_the_accelerator():
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device("openreg")
    assert accelerator.current_accelerator(check_available=True).type == "openreg"
    assert accelerator.device_count() == 2
    assert torch.get_device_module() is torch.openreg
    assert torch.get_device_module("openreg:1") is torch.openreg


def test_the_current_device_can_be_changed():
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(1)
    assert accelerator.current_device_index() == torch.openreg.current_device() == 1
    accelerator.set_device_index("openreg:0")
    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
        with accelerator.device_index(None):
            assert accelerator.current_device_index() == 1
    assert accelerator.current_device_index() == 0


@pytest.mark.parametrize("index", [2, 100, 127])
def test_devices_that_do_not_exist_are_refused(index):
    torch.empty(1, device="openreg")  # before, there are no figures at all
    with pytest.raises(RuntimeError):
        accelerator.set_device_index(index)
    with pytest.raises(RuntimeError):
        accelerator.memory_stats(index)
    with pytest.raises(RuntimeError):
        accelerator.current_stream(index)
    with pytest.raises(RuntimeError):
        accelerator.synchronize(index)
    assert accelerator.current_device_index() == 0


def test_the_capability_has_every_dtype():
    dtypes = accelerator.get_device_capability("openreg:1")["supported_dtypes"]
    assert {torch.float32, torch.float64, torch.bfloat16, torch.complex128} <= dtypes
    assert {torch.bool, torch.int8, torch.uint64, torch.float8_e4m3fn} <= dtypes


def test_streams_can_be_read_and_set():
    default = accelerator.current_stream()
    assert default == torch.openreg.default_stream()
    stream = torch.Stream("openreg:1")
    accelerator.set_stream(stream)
    assert accelerator.current_stream(1) == stream
    assert accelerator.current_device_index() == 1
    with torch.Stream("openreg:0") as other:
        assert accelerator.current_stream() == other
    assert accelerator.current_stream() == stream


def test_synchronize_waits_for_the_device(hold):
    stream = torch.Stream("openreg:1")
    gate = hold(stream)
    accelerator.synchronize(0)
    assert not stream.query()
    gate.open()
    accelerator.synchronize(1)
    assert stream.query()


def test_the_memory_figures_are_those_of_torch_openreg():
    gc.collect()
    accelerator.empty_cache()
    accelerator.reset_peak_memory_stats(1)
    accelerator.reset_accumulated_memory_stats(1)
    before = accelerator.memory_allocated(1)
    x = torch.empty(3 * MiB, dtype=torch.uint8, device="openreg:1")
    assert accelerator.memory_allocated(1) == before + 3 * MiB
    assert accelerator.max_memory_allocated("openreg:1") == before + 3 * MiB
    assert accelerator.memory_reserved(1) == torch.openreg.memory_reserved(1)
    assert accelerator.max_memory_reserved(1) == torch.openreg.max_memory_reserved(1)
    stats = accelerator.memory_stats(1)
    assert stats["allocated_bytes.all.allocated"] == 3 * MiB
    assert stats == torch.openreg.memory_stats(1)
    free, total = accelerator.get_memory_info(1)
    assert (free, total) == torch.openreg.mem_get_info(1)
    assert free == total - accelerator.memory_reserved(1)
    del x
    assert accelerator.memory_allocated(1) == before


# --- pinned memory ------------------------------------------------------------


def test_tensors_can_be_pinned():
    x = torch.arange(6.0).view(2, 3)
    pinned = x.pin_memory()
    assert not x.is_pinned()
    assert pinned.is_pinned()
    assert pinned.device.type == "cpu"
    assert pinned.tolist() == x.tolist()
    assert pinned[1:, 2].is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.untyped_storage().is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.zeros(3, 3, pin_memory=True).is_pinned()
    assert torch.empty_like(x, pin_memory=True).is_pinned()
    assert x.t().pin_memory().stride() == (1, 3)


def test_device_memory_is_not_pinned():
    x = torch.ones(3, device="openreg")
    assert not x.is_pinned()
    assert not x.untyped_storage().is_pinned()
    with pytest.raises(RuntimeError, match="cannot pin"):
        x.pin_memory()


def test_registered_memory_counts_as_pinned(libopenreg):
    x = torch.ones(1000)
    address = ctypes.c_void_p(x.data_ptr())
    assert libopenreg.orHostRegister(address, ctypes.c_size_t(4000), 0) == 0
    assert x.is_pinned()
    assert x[500:].is_pinned()
    assert libopenreg.orHostUnregister(address) == 0
    assert not x.is_pinned()


def test_a_data_loader_pins_what_it_loads():
    data = TensorDataset(torch.arange(8.0), torch.arange(8))
    for x, y in DataLoader(data, batch_size=4, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
        assert x.to("openreg", non_blocking=True).tolist() == y.tolist()


# --- storages -----------------------------------------------------------------


@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
def test_a_storage_keeps_its_bytes_when_it_is_resized(device):
    x = torch.arange(10, dtype=torch.uint8, device=device)
    storage = x.untyped_storage()
    storage.resize_(5000)
    assert storage.nbytes() == 5000
    assert x.tolist() == list(range(10))
    storage.resize_(4)
    assert storage.nbytes() == 4
    assert x[:4].tolist() == [0, 1, 2, 3]
    storage.resize_(0)
    assert (storage.nbytes(), storage.data_ptr()) == (0, 0)
    storage.resize_(10)
    assert storage.device == torch.device(device)


def test_a_resized_storage_gives_its_old_memory_back():
    x = torch.empty(3 * MiB, dtype=torch.uint8, device="openreg")
    before = torch.openreg.memory_allocated()
    x.untyped_storage().resize_(0)
    assert torch.openreg.memory_allocated() == before - 3 * MiB


def test_storages_can_be_copied_filled_and_moved():
    storage = torch.UntypedStorage(6, device="openreg:1")
    assert storage.device == torch.device("openreg:1")
    storage.fill_(7)
    assert list(storage.cpu()) == [7] * 6
    copy = torch.UntypedStorage(6, device="openreg:1").copy_(storage)
    assert list(copy.cpu()) == [7] * 6
    assert list(storage.openreg(0).cpu()) == [7] * 6
    assert storage.clone().device == storage.device
    assert storage.is_openreg
    assert storage[2] == 7


# --- presence -----------------------------------------------------------------


def test_a_device_starts_with_its_first_use(run_python):
    code = """
import ctypes, pathlib, torch, torch_openreg

path = pathlib.Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"
library = ctypes.CDLL(str(path))

def active():
    answers = [ctypes.c_int(), ctypes.c_int()]
    for device, answer in enumerate(answers):
        assert library.orDeviceIsActive(ctypes.byref(answer), device) == 0
    return [answer.value for answer in answers]

torch.manual_seed(1)
asked = torch.openreg.is_available(), torch.accelerator.device_count()
print(*asked, active())
torch.empty(1, device="openreg:1")
print(active())
"""
    assert run_python(code).splitlines() == ["True 2 [0, 0]", "[0, 1]"]


def test_autograd_uses_the_devices_that_are_in_use(run_python):
    """A backward on one device must not wake the other."""
    code = """
import torch
x = torch.ones(3, device="openreg:1", requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist(), torch.openreg.memory_reserved(0))
"""
    assert run_python(code) == "[2.0, 2.0, 2.0] 0"


def test_without_a_device_everything_says_so(run_python):
    code = """
import torch
print(torch.openreg.is_available(), torch.openreg.device_count())
print(torch.accelerator.is_available(), torch.accelerator.device_count())
for call in (lambda: torch.empty(1, device="openreg"), torch.openreg.init):
    try:
        call()
    except RuntimeError as error:
        print("OPENREG_VISIBLE_DEVICES names none" in str(error))
"""
    lines = run_python(code, OPENREG_VISIBLE_DEVICES="").splitlines()
    assert lines == ["False 0", "False 0", "True", "True"]
