"""The names that the device has on tensors, modules, storages and packed sequences
are those of CUDA, and mean what they mean there."""

import copy
import inspect

import pytest
import torch
from layouts import ALL, DENSE
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence

# --- tensors ------------------------------------------------------------------

PLACES = [
    ((), "openreg:0"),
    ((1,), "openreg:1"),
    (("openreg:1",), "openreg:1"),
    ((torch.device("openreg", 1),), "openreg:1"),
    ((torch.device("openreg"),), "openreg:0"),
]
WRONG = [
    ((9,), "device 9 is not in"),
    ((-1,), "Invalid device string: 'openreg:-1'"),
    (("cpu",), "must be openreg device"),
]


@pytest.mark.parametrize("place, device", PLACES)
def test_a_tensor_goes_to_the_device(place, device):
    x = torch.arange(3.0)
    y = x.openreg(*place)
    assert (y.device, y.tolist()) == (torch.device(device), [0, 1, 2])
    assert y.openreg(*place) is y
    assert (y.is_openreg, x.is_openreg, y.is_cuda, y.is_cpu) == (True, *[False] * 3)
    assert y.get_device() == y.device.index


@pytest.mark.parametrize("place, words", WRONG)
def test_the_error_names_a_device_that_does_not_exist(place, words):
    module = nn.Linear(2, 2)
    for value in (torch.ones(2), torch.ones(2).untyped_storage(), module):
        with pytest.raises(RuntimeError, match=words):
            value.openreg(*place)
    assert module.weight.device.type == "cpu"  # as before


def test_no_number_means_the_current_device():
    with torch.openreg.device(1):
        assert torch.ones(1).openreg().device == torch.device("openreg:1")
        assert nn.Linear(1, 1).openreg().weight.device == torch.device("openreg:1")
        assert torch.ones(1).untyped_storage().openreg().device.index == 1


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_every_layout_have_the_names(make):
    x = make(DENSE)
    y = x.openreg(1)
    assert (x.is_openreg, y.is_openreg) == (False, True)
    assert (y.device, y.layout) == (torch.device("openreg:1"), x.layout)


def test_a_copy_goes_on_while_the_host_does(hold):
    gate = hold(torch.openreg.current_stream())
    x = torch.arange(3.0).pin_memory()
    y = x.openreg(non_blocking=True)
    assert not torch.openreg.current_stream().query()
    gate.open()
    assert y.tolist() == [0, 1, 2]


def test_new_tensors_are_where_the_old_one_is():
    x = torch.ones(2, device="openreg:1")
    for y in (
        x.new_zeros(2),
        x.new_tensor([1]),
        x.new_empty(2),
        x.new(3),
        torch.zeros_like(x),
        torch.asarray(x),
        torch.ones(1).type_as(x),
    ):
        assert y.device == x.device
    assert x.new_ones(2, device="cpu").device.type == "cpu"
    assert x.type() == "torch.openreg.FloatTensor"
    assert x.to_sparse().type() == "torch.openreg.sparse.FloatTensor"


# --- modules ------------------------------------------------------------------


@pytest.mark.parametrize("place, device", PLACES)
def test_a_module_goes_to_the_device(place, device):
    module = nn.BatchNorm1d(2)
    module.shared = module.weight
    assert module.openreg(*place) is module
    for value in module.state_dict().values():
        assert value.device == torch.device(device)
    assert isinstance(module.weight, nn.Parameter)
    assert module.shared is module.weight
    assert module.cpu().weight.device.type == "cpu"


def test_gradients_and_buffers_go_along():
    module = nn.Linear(2, 2)
    module.register_buffer("table", torch.arange(3))
    module.weight.grad = torch.ones(2, 2)
    module.openreg(1)
    assert module.weight.grad.device == module.table.device == torch.device("openreg:1")
    assert module.to("openreg:0", torch.half).weight.grad.dtype == torch.half


def test_a_lazy_module_moves_before_it_has_shapes():
    module = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).openreg(1)
    assert isinstance(module[0].weight, nn.UninitializedParameter)
    y = module(torch.ones(2, 4, device="openreg:1"))
    assert y.device == module[0].weight.device == torch.device("openreg:1")
    assert module[0].weight.shape == (3, 4)


# --- storages -----------------------------------------------------------------


@pytest.mark.parametrize("place, device", PLACES)
def test_a_storage_goes_to_the_device(place, device):
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    ours = storage.openreg(*place)
    assert (ours.device, ours.tolist()) == (torch.device(device), [0, 1, 2, 3])
    assert ours.openreg(*place) is ours
    assert (ours.is_openreg, storage.is_openreg, ours.is_cuda) == (True, False, False)
    assert ours.get_device() == ours.device.index
    assert bytes(ours.cpu()) == bytes(range(4))


def test_a_storage_of_the_device_is_read_and_written():
    storage = torch.UntypedStorage([1, 2, 3, 4], device="openreg:1")
    storage[1] = 7
    storage[2:] = 9
    assert (storage.tolist(), storage[1], len(storage)) == ([1, 7, 9, 9], 7, 4)
    assert storage[1:3].tolist() == [7, 9]
    copied, deep = storage.clone(), copy.deepcopy(storage)
    storage.fill_(0).resize_(8)
    assert copied.tolist() == deep.tolist() == [1, 7, 9, 9]
    assert copied.device == deep.device == storage.device
    assert (storage.nbytes(), storage.tolist()[:4]) == (8, [0] * 4)
    storage.copy_(torch.UntypedStorage([5] * 8))
    assert storage.tolist() == [5] * 8
    assert "openreg:1" in repr(storage)
    for index in (8, -9):
        with pytest.raises(IndexError, match="out of range for storage of size 8"):
            storage[index]
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        storage.pin_memory()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_typed_storage_goes_to_the_device():
    storage = torch.FloatStorage([1, 2]).openreg(1)
    assert (storage.device, storage.dtype) == (torch.device("openreg:1"), torch.float)
    storage[1] = 5
    assert storage.tolist() == storage.cpu().tolist() == [1, 5]
    assert (storage.is_openreg, torch.FloatStorage(1).is_openreg) == (True, False)
    assert storage.double().tolist() == [1, 5]
    assert storage.double().device == storage.device
    made = torch.TypedStorage(3, dtype=torch.half, device="openreg:1")
    assert (made.device, made.nbytes()) == (storage.device, 6)


def test_tensors_that_share_a_storage_share_it_on_the_device():
    x = torch.zeros(4, device="openreg:1")
    y = torch.empty(0, device="openreg:1").set_(x.untyped_storage(), 1, (2,), (2,))
    x[1] = 3
    assert y.tolist() == [3, 0]
    assert x.untyped_storage() == y.untyped_storage()
    with pytest.raises(RuntimeError, match="the devices must match"):
        torch.empty(0).set_(x.untyped_storage())


# --- packed sequences ---------------------------------------------------------


@pytest.mark.parametrize("place, device", PLACES)
def test_a_packed_sequence_goes_to_the_device(place, device):
    packed = pack_sequence([torch.ones(1), torch.ones(3)], enforce_sorted=False)
    ours = packed.openreg(*place)
    assert (ours.is_openreg, packed.is_openreg) == (True, False)
    for part in (ours.data, ours.sorted_indices, ours.unsorted_indices):
        assert part.device == torch.device(device)
    assert ours.batch_sizes.device.type == "cpu"  # the host's, on CUDA too
    assert ours.cpu().data.tolist() == packed.data.tolist()
    assert packed.openreg(dtype=torch.half).data.dtype == torch.half


def test_lengths_of_packed_sequences_stay_on_the_host():
    x = torch.ones(3, 2, 1, device="openreg")
    words = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D openreg:0"
    with pytest.raises(RuntimeError, match=words):
        pack_padded_sequence(x, torch.tensor([3, 1], device="openreg"))


# --- all ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [torch.Tensor, nn.Module, torch.UntypedStorage, torch.TypedStorage],
)
def test_the_methods_take_what_cudas_take(kind):
    def arguments(name):
        method = getattr(kind, name)
        try:
            return [p for p in inspect.signature(method).parameters if p != "kwargs"]
        except ValueError:  # written in C++
            return ["self", "device", "non_blocking"]

    ours, theirs = arguments("openreg"), arguments("cuda")
    assert ours[: len(theirs)] == theirs
