"""Tensors and modules saved, loaded, pickled and copied."""

import copy
import io
import pickle

import pytest
import torch
from torch_openreg import _C

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def reloaded(value, **options):
    return torch.load(saved(value), **options)


# --- tensors ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensors_come_back_on_their_device(dtype, weights_only):
    x = torch.arange(6).to(dtype).view(2, 3).to("openreg:1")
    y = reloaded(x, weights_only=weights_only)
    assert (y.dtype, y.device, y.shape) == (x.dtype, x.device, x.shape)
    assert torch.equal(y.cpu().view(torch.uint8), x.cpu().view(torch.uint8))


def test_layouts_and_empty_tensors_come_back():
    x = torch.arange(24.0, device="openreg").view(2, 3, 4)
    for y in (x.permute(2, 0, 1), x[:, 1], x[0, 0, 0], x[:0], x[1].t()):
        z = reloaded(y)
        assert (z.shape, z.stride(), z.device) == (y.shape, y.stride(), y.device)
        assert z.tolist() == y.tolist()


def test_lazy_bits_come_back():
    x = torch.tensor([1 + 2j, 3 - 4j], device="openreg").conj()
    y = reloaded(x)
    assert y.is_conj()
    assert y.tolist() == x.tolist() == [1 - 2j, 3 + 4j]
    assert reloaded(x.imag).tolist() == [-2, 4]


def test_parameters_keep_what_they_are():
    parameter = torch.nn.Parameter(torch.ones(3, device="openreg"), requires_grad=False)
    loaded = reloaded(parameter)
    assert isinstance(loaded, torch.nn.Parameter)
    assert not loaded.requires_grad
    assert reloaded(torch.ones(3, device="openreg", requires_grad=True)).requires_grad


def test_shared_storages_stay_shared():
    x = torch.zeros(10, device="openreg:1")
    y, z, other = reloaded([x, x[2:5], torch.zeros(10, device="openreg:1")])
    y[3] = 7
    assert z.tolist() == [0, 7, 0]
    assert other.tolist() == [0] * 10


def test_the_file_names_the_device():
    storage = torch.arange(4, dtype=torch.uint8, device="openreg:1").untyped_storage()
    assert torch.serialization.location_tag(storage) == "openreg:1"
    assert torch.serialization.location_tag(torch.zeros(1).untyped_storage()) == "cpu"


# --- map_location -------------------------------------------------------------


@pytest.mark.parametrize("given", ["cpu", "openreg:0", "openreg:1"])
@pytest.mark.parametrize("wanted", ["cpu", "openreg:0", "openreg:1"])
def test_map_location_moves_tensors_either_way(given, wanted):
    x = torch.arange(5.0, device=given)
    for where in (wanted, torch.device(wanted), {given: wanted}):
        y = reloaded(x, map_location=where)
        assert y.device == torch.device(wanted)
        assert y.tolist() == x.tolist()
    y = reloaded(x, map_location=lambda storage, tag: storage.to(device=wanted))
    assert y.device == torch.device(wanted)


def test_map_location_without_an_index_is_the_current_device():
    x = torch.arange(5.0)
    with torch.openreg.device(1):
        assert reloaded(x, map_location="openreg").device == torch.device("openreg:1")


def test_a_device_that_is_not_there_is_named(tmp_path):
    file = saved(torch.ones(3, device="openreg:1")).getvalue()
    file = io.BytesIO(file.replace(b"openreg:1", b"openreg:7"))
    for where in (None, "openreg:7"):
        file.seek(0)
        with pytest.raises(RuntimeError) as error:
            torch.load(file, map_location=where, weights_only=False)
        message = str(error.value)
        assert "openreg" in message and "7" in message and "map_location" in message
    file.seek(0)
    assert torch.load(file, map_location="cpu").tolist() == [1, 1, 1]


# --- whole modules ------------------------------------------------------------


def test_a_checkpoint_moves_between_devices():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)
    ).openreg()
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.rand(8, 3, device="openreg")).sum().backward()
    optimizer.step()
    checkpoint = {"module": module.state_dict(), "optimizer": optimizer.state_dict()}

    loaded = reloaded(checkpoint, map_location="cpu", weights_only=True)
    assert {value.device.type for value in loaded["module"].values()} == {"cpu"}
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(
        "openreg:1"
    )
    other.load_state_dict(loaded["module"])
    for a, b in zip(module.parameters(), other.parameters(), strict=True):
        assert b.device == torch.device("openreg:1")
        assert torch.equal(a.cpu(), b.cpu())
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(loaded["optimizer"])
    moments = [state["exp_avg"].device for state in again.state.values()]
    assert set(moments) == {torch.device("openreg:1")}


def test_a_whole_module_comes_back():
    module = torch.nn.Linear(3, 4).to("openreg:1")
    loaded = reloaded(module, weights_only=False)
    x = torch.rand(2, 3, device="openreg:1")
    assert torch.equal(loaded(x).cpu(), module(x).cpu())


def test_a_file_can_be_mapped_into_memory(tmp_path):
    torch.save(torch.arange(1000.0, device="openreg"), tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", map_location="cpu", mmap=True)
    assert loaded.tolist() == list(range(1000))


def test_the_old_file_format_works_too():
    file = io.BytesIO()
    x = torch.arange(5.0, device="openreg:1")
    torch.save([x, x[2:]], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    y, z = torch.load(file)
    assert y.device == z.device == x.device
    y[2] = 9
    assert z.tolist() == [9, 3, 4]


# --- pickle and copy ----------------------------------------------------------


def test_tensors_and_storages_can_be_pickled():
    x = torch.arange(5.0, device="openreg:1")[1:]
    y = pickle.loads(pickle.dumps(x))
    assert (y.device, y.tolist()) == (x.device, x.tolist())


def test_copies_are_deep():
    x = torch.arange(5.0, device="openreg:1")
    y, z = copy.deepcopy([x, x[2:]])
    x.zero_()
    y[2] = 9
    assert y.device == x.device
    assert z.tolist() == [9, 3, 4]  # still one storage
    module = torch.nn.Linear(3, 4).openreg()
    again = copy.deepcopy(module)
    assert again.weight.device == module.weight.device
    assert again.weight.data_ptr() != module.weight.data_ptr()


def test_a_tensor_with_a_history_cannot_be_deeply_copied():
    x = torch.ones(3, device="openreg", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="created explicitly by the user"):
        copy.deepcopy(x)


# --- flags --------------------------------------------------------------------


def flagged(**flags):
    x = torch.ones(3, device="openreg")
    for name, value in flags.items():
        _C._setTensorFlag(x, name, value)
    return x


def test_a_tensor_has_no_flags_at_first():
    assert _C._getTensorFlags(torch.ones(3, device="openreg")) == {}


def test_flags_can_be_set_and_changed():
    x = flagged(tiled=True, packed=False)
    assert _C._getTensorFlags(x) == {"tiled": True, "packed": False}
    _C._setTensorFlag(x, "tiled", False)
    assert _C._getTensorFlags(x) == {"tiled": False, "packed": False}


def test_only_tensors_of_the_device_have_flags():
    words = "expected a tensor of an openreg device, but got one of cpu"
    with pytest.raises(RuntimeError, match=words):
        _C._setTensorFlag(torch.ones(3), "tiled", True)
    with pytest.raises(RuntimeError, match=words):
        _C._getTensorFlags(torch.ones(3))


@pytest.mark.parametrize("weights_only", [True, False])
def test_flags_are_saved_and_loaded(weights_only):
    x = flagged(tiled=True, conj=False)  # a name that PyTorch uses too
    y = reloaded(x, weights_only=weights_only)
    assert _C._getTensorFlags(y) == {"tiled": True, "conj": False}
    assert not y.is_conj()
    _C._setTensorFlag(y, "tiled", False)
    assert _C._getTensorFlags(x)["tiled"]


def test_flags_stay_behind_when_a_tensor_is_loaded_elsewhere():
    y = reloaded(flagged(tiled=True), map_location="cpu")
    assert y.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "same",
    [lambda x: x.detach(), lambda x: x.data, lambda x: torch.nn.Parameter(x)],
)
def test_another_object_for_the_same_tensor_has_flags_of_its_own(same):
    x = flagged(tiled=True)
    y = same(x)
    assert _C._getTensorFlags(y) == {"tiled": True}
    _C._setTensorFlag(y, "tiled", False)
    assert _C._getTensorFlags(x) == {"tiled": True}


def test_metadata_that_is_not_a_flag_of_ours_is_kept():
    x = flagged(tiled=True)
    torch._utils.set_tensor_metadata(x, {"theirs": True, "openreg.packed": False})
    kept = {"openreg.tiled": True, "openreg.packed": False, "theirs": True}
    assert torch._utils.get_tensor_metadata(x) == kept
    assert torch._utils.get_tensor_metadata(reloaded(x)) == kept
    assert torch._utils.get_tensor_metadata(x.detach()) == kept
    assert _C._getTensorFlags(x) == {"tiled": True, "packed": False}


# PyTorch makes a deep copy as a new tensor over a copy of the storage.
def test_new_tensors_have_none_of_the_flags():
    x = flagged(tiled=True)
    for y in (x + 1, x.clone(), torch.empty_like(x), copy.deepcopy(x)):
        assert _C._getTensorFlags(y) == {}
