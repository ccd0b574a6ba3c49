"""torch.openreg.FloatTensor and its like: names for a dtype on the device."""

import copy
import pickle

import pytest
import torch

m = torch.openreg

TENSORS = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}
STORAGES = {
    name.replace("Tensor", "Storage"): dtype for name, dtype in TENSORS.items()
} | {
    "ComplexDoubleStorage": torch.complex128,
    "ComplexFloatStorage": torch.complex64,
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_type_is_a_dtype_on_the_device(name):
    kind, dtype = getattr(m, name), TENSORS[name]
    assert kind.dtype == dtype
    assert kind.layout == torch.strided
    assert kind.__name__ == name
    assert repr(kind) == f"<class 'torch.openreg.{name}'>"
    made = kind([0, 1, 1])
    assert (made.dtype, made.device) == (dtype, torch.device("openreg:0"))
    assert made.tolist() == [0, 1, 1]
    assert made.type() == f"torch.openreg.{name}"


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_a_type_are_its_instances(name):
    kind, dtype = getattr(m, name), TENSORS[name]
    x = torch.ones(2, dtype=dtype, device="openreg:1")
    others = {other for other in TENSORS if isinstance(x, getattr(m, other))}
    assert others == {name}
    assert not isinstance(x.cpu(), kind)
    assert not isinstance(x, getattr(torch, name))
    assert not isinstance(3, kind)


def test_parameters_are_instances_and_sparse_tensors_are_not():
    x = torch.nn.Parameter(torch.ones(2, device="openreg"))
    assert isinstance(x, m.FloatTensor)
    assert not isinstance(x.detach().to_sparse(), m.FloatTensor)
    assert isinstance(x.detach().to_sparse(), m.sparse.FloatTensor)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [((), (0,)), ((2, 3), (2, 3)), ((torch.Size([4]),), (4,)), (([[1, 2]],), (1, 2))],
    ids=str,
)
def test_arguments_are_those_of_the_cpus_types(arguments, shape):
    assert m.FloatTensor(*arguments).shape == torch.FloatTensor(*arguments).shape
    assert m.FloatTensor(*arguments).shape == shape


def test_the_device_is_the_current_one_or_the_one_asked_for():
    with m.device(1):
        assert m.FloatTensor(2).device == torch.device("openreg:1")
    assert m.FloatTensor(2, device="openreg:1").device == torch.device("openreg:1")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: m.FloatTensor(2, device="cpu"), RuntimeError),
        (lambda: m.FloatTensor("two"), (TypeError, ValueError)),
        (lambda: m.FloatTensor(torch.ones(2)), (TypeError, RuntimeError)),
    ],
)
def test_other_arguments_are_refused(make, error):
    with pytest.raises(error):
        make()


def test_type_converts_tensors_and_modules():
    assert isinstance(torch.ones(2).type(m.HalfTensor), m.HalfTensor)
    assert isinstance(torch.ones(2).type("torch.openreg.LongTensor"), m.LongTensor)
    on_device = torch.ones(2, device="openreg")
    assert isinstance(on_device.type(torch.DoubleTensor), torch.DoubleTensor)
    assert isinstance(torch.nn.Linear(1, 1).type(m.DoubleTensor).bias, m.DoubleTensor)


def test_a_type_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(m.FloatTensor)) is m.FloatTensor
    assert copy.deepcopy(m.FloatTensor) is m.FloatTensor
    assert m.FloatTensor in torch._tensor_classes


def test_types_of_sparse_tensors_make_sparse_tensors():
    indices = torch.tensor([[0, 2]], device="openreg")
    values = torch.tensor([1.0, 2.0], device="openreg")
    with pytest.warns(UserWarning, match="torch.sparse_coo_tensor"):  # as the CPU's
        x = m.sparse.FloatTensor(indices, values, torch.Size([3]))
    assert isinstance(x, m.sparse.FloatTensor)
    assert x.type() == "torch.openreg.sparse.FloatTensor"
    assert x.to_dense().tolist() == [1, 0, 2]
    assert repr(m.sparse.FloatTensor) == "<class 'torch.openreg.sparse.FloatTensor'>"


def test_the_default_type_can_only_be_one_of_torchs():
    with pytest.warns(UserWarning, match="torch.set_default_device"):
        torch.set_default_tensor_type(torch.FloatTensor)
    with pytest.raises(TypeError, match="invalid type object"):
        torch.set_default_tensor_type(m.FloatTensor)
    assert torch.ones(1).device.type == "cpu"


# --- storages -------------------------------------------------------------------

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


@pytest.mark.parametrize("name", STORAGES)
def test_a_storage_type_is_a_dtype_on_the_device(name):
    kind, dtype = getattr(m, name), STORAGES[name]
    assert kind.dtype == dtype
    made = kind(3)
    assert (made.dtype, made.device) == (dtype, torch.device("openreg:0"))
    assert made.size() == 3
    storage = torch.ones(2, dtype=dtype, device="openreg").storage()
    assert storage.type() == f"torch.openreg.{name}"
    found = {other for other in STORAGES if isinstance(storage, getattr(m, other))}
    assert found == {name}
    assert not isinstance(storage.cpu(), kind)


def test_a_storage_type_makes_storages_of_values():
    storage = m.FloatStorage([1, 2.5])
    assert isinstance(storage, m.FloatStorage)
    assert torch.is_storage(storage)
    assert storage.tolist() == [1, 2.5]
    assert m.FloatStorage in torch._storage_classes


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("from_buffer", (b"12", "native")),
        ("_new_with_weak_ptr", (0,)),
        ("_new_shared_filename", (None, None, 1)),
    ],
)
def test_what_needs_host_memory_is_refused(name, arguments):
    with pytest.raises(RuntimeError, match="Not available for OpenReg storage"):
        getattr(m.FloatStorage, name)(*arguments)
