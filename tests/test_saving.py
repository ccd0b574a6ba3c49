"""What is saved from the device is what is saved from the CPU, in every dtype and
layout; a file goes from one to the other and back. test_serialization.py has the
rest of a tensor, and map_location."""

import io
import zipfile

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.serialization import skip_data
from torch.utils.serialization import config

pytestmark = pytest.mark.filterwarnings("ignore")

HERE, THERE = "openreg:1", "cpu"


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def records(value):
    """The bytes of each storage in a saved file."""
    file = zipfile.ZipFile(saved(value))
    names = [name for name in file.namelist() if "/data/" in name]
    return [file.read(name) for name in names]


# --- dtypes and layouts -------------------------------------------------------

QUANTIZED = {"qint8", "quint8", "qint32", "quint4x2", "quint2x4"}
BELOW_A_BYTE = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
ALL = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
NAMES = {str(dtype).removeprefix("torch.") for dtype in ALL}
DTYPES = [getattr(torch, name) for name in sorted(NAMES - QUANTIZED - BELOW_A_BYTE)]


def of_bytes(dtype, device, nbytes=48):
    """A tensor with other bytes in each place."""
    content = torch.arange(nbytes) % (2 if dtype == torch.bool else 256)
    tensor = torch.empty(0, dtype=dtype, device=device)
    size = nbytes // tensor.element_size()
    storage = content.to(torch.uint8).to(device).untyped_storage()
    return tensor.set_(storage, 0, (size,), (1,))


def compressed(layout, block=()):
    def make(x):
        offsets, places = torch.tensor([[0, 1, 3], [1, 0, 1]]).to(x.device)
        values = x[:3].clone().view(3, *block)
        return torch.sparse_compressed_tensor(
            offsets.clone(), places.clone(), values, (2, 2), layout=layout
        )

    return make


def coordinates(**options):
    def make(x):
        indices = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(x.device)
        return torch.sparse_coo_tensor(indices, x[:3].clone(), (2, 2), **options)

    return make


def nested(x):
    sizes, strides, offsets = torch.tensor([[1], [2]]), torch.ones(2, 1), (0, 1)
    return torch._nested_view_from_buffer(
        x[:3].clone(), sizes, strides.long(), torch.tensor(offsets)
    )


LAYOUTS = {
    "whole": lambda x: x,
    "offset": lambda x: x[1:],
    "steps": lambda x: x[::2],
    "transposed": lambda x: x[:2].view(1, 2).t(),
    "expanded": lambda x: x[:1].expand(3),
    "one number": lambda x: x[1],
    "empty": lambda x: x[:0],
    "no storage": lambda x: x.new_empty(0),
    "conjugate": lambda x: x.conj(),
    "negative": torch._neg_view,
    "coo": coordinates(),
    "coalesced": coordinates(is_coalesced=True),
    "csr": compressed(torch.sparse_csr),
    "csc": compressed(torch.sparse_csc),
    "bsr": compressed(torch.sparse_bsr, (1, 1)),
    "bsc": compressed(torch.sparse_bsc, (1, 1)),
    "nested": nested,
    "jagged": lambda x: torch.nested.nested_tensor_from_jagged(
        x[:3].clone(), torch.tensor([0, 1, 3]).to(x.device)
    ),
}


def outline(tensor):
    """What a tensor is, but for its numbers and its device."""
    outline = [type(tensor), tensor.dtype, tensor.layout, tensor.requires_grad]
    if tensor.is_nested:
        return [*outline, [part.shape for part in tensor.unbind()]]
    outline += [tensor.shape, tensor.is_conj(), tensor.is_neg()]
    if tensor.layout == torch.strided:
        outline += [tensor.stride(), tensor.storage_offset(), tensor.is_quantized]
    if tensor.layout == torch.sparse_coo:
        outline += [tensor.is_coalesced()]
    return outline


def check(make):
    """`make` gives what to save, for a device."""
    ours, theirs = make(HERE), make(THERE)
    assert records(ours) == records(theirs)
    for given, where in ((ours, HERE), (ours, THERE), (theirs, HERE)):
        for weights_only in (True, False):
            tag = None if given is ours and where == HERE else where
            loaded = torch.load(
                saved(given), map_location=tag, weights_only=weights_only
            )
            assert loaded.device == torch.device(where)
            assert outline(loaded) == outline(theirs)
            assert records(loaded) == records(theirs)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_files_of_every_dtype_have_the_bytes_of_the_cpus(layout):
    for dtype in DTYPES:
        check(lambda device, dtype=dtype: layout(of_bytes(dtype, device)))


@pytest.mark.parametrize("name", sorted(QUANTIZED))
def test_files_of_quantized_tensors_have_the_bytes_of_the_cpus(name):
    dtype = getattr(torch, name)
    numbers = torch.arange(8.0).view(2, 4)
    scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([1, 2])

    def per_tensor(device):
        return torch.quantize_per_tensor(numbers.to(device), 0.5, 1, dtype)

    def per_channel(device):
        given = (part.to(device) for part in (numbers, scales, zeros))
        return torch.quantize_per_channel(*given, 0, dtype)

    for make in (per_tensor, per_channel):
        try:
            make(THERE)
        except RuntimeError:
            continue  # PyTorch has not all of them
        check(make)


@pytest.mark.parametrize("name", sorted(BELOW_A_BYTE))
def test_what_the_cpu_does_not_save_is_not_saved(name):
    for device in (THERE, HERE):
        with pytest.raises(KeyError, match=f"torch.{name} is not recognized"):
            saved(of_bytes(getattr(torch, name), device))


# --- storages -----------------------------------------------------------------


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("where", [None, "cpu", "openreg:0"])
def test_a_storage_is_saved_alone(zipped, where):
    storage = torch.arange(5.0, device=HERE)._typed_storage()
    file = saved(storage, _use_new_zipfile_serialization=zipped)
    loaded = torch.load(file, map_location=where, weights_only=False)
    assert loaded.device == torch.device(where or HERE)
    assert loaded.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("zipped", [True, False])
def test_what_shares_a_storage_shares_it_on_each_device(zipped):
    x, y = torch.zeros(4, device="openreg:0"), torch.zeros(4, device="openreg:1")
    file = saved([x, x[1:], y, y.view(2, 2).t()], _use_new_zipfile_serialization=zipped)
    swapped = {"openreg:0": "openreg:1", "openreg:1": "openreg:0"}
    a, b, c, d = torch.load(file, map_location=swapped)
    assert [str(tensor.device) for tensor in (a, b, c, d)] == [
        "openreg:1",
        "openreg:1",
        "openreg:0",
        "openreg:0",
    ]
    a[1], c[1] = 5, 7
    assert (b[0].item(), d[1, 0].item()) == (5, 7)


@pytest.mark.parametrize(
    "where",
    [
        "openreg:1",
        torch.device("openreg:1"),
        {"cuda:0": "openreg:1"},
        lambda storage, tag: storage.openreg(1) if tag == "cuda:0" else storage,
    ],
    ids=["text", "device", "table", "function"],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_a_gpu_is_read_onto_the_device(monkeypatch, where, zipped):
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        x = torch.arange(3.0)
        file = saved([x, x[1:]], _use_new_zipfile_serialization=zipped)
    whole, part = torch.load(file, map_location=where)
    assert whole.device == part.device == torch.device("openreg:1")
    whole[1] = 7
    assert part.tolist() == [7, 2]


def test_a_file_of_another_byte_order_is_turned_on_the_host():
    given, file = torch.arange(3, dtype=torch.int32, device=HERE), io.BytesIO()
    with zipfile.ZipFile(saved(given)) as little, zipfile.ZipFile(file, "w") as big:
        for name in little.namelist():
            content = little.read(name)
            if name.endswith("byteorder"):
                content = b"big"
            elif "/data/" in name:
                content = b"".join(i.to_bytes(4, "big") for i in range(3))
            big.writestr(name, content)
    file.seek(0)
    loaded = torch.load(file)
    assert (loaded.device, loaded.tolist()) == (given.device, [0, 1, 2])


def test_a_file_is_mapped_and_its_storages_go_to_the_device(tmp_path):
    torch.save(
        {"a": torch.arange(5.0), "b": torch.ones(3, device=HERE)}, tmp_path / "f"
    )
    loaded = torch.load(tmp_path / "f", mmap=True, map_location="openreg:0")
    assert {str(tensor.device) for tensor in loaded.values()} == {"openreg:0"}
    assert loaded["a"].tolist() == [0, 1, 2, 3, 4]


def test_storages_come_to_the_host_through_pinned_memory(monkeypatch):
    monkeypatch.setattr(config.save, "use_pinned_memory_for_d2h", True)
    before = torch.openreg.host_memory_stats()["num_host_alloc"]
    x = torch.arange(1 << 18, device=HERE)
    assert torch.equal(torch.load(saved(x)).cpu(), x.cpu())
    assert torch.openreg.host_memory_stats()["num_host_alloc"] > before


# --- without the data ---------------------------------------------------------


def test_a_file_can_be_written_without_the_data():
    x = torch.ones(5, device=HERE)
    with skip_data():
        file = saved(x)
    loaded = torch.load(file)
    assert (loaded.device, loaded.shape) == (x.device, x.shape)
    assert len(file.getvalue()) == len(saved(x).getvalue())


@pytest.mark.parametrize("given, where", [(HERE, None), (THERE, HERE), (HERE, THERE)])
def test_a_file_can_be_read_without_the_data(given, where):
    file = saved({"x": torch.arange(5.0, device=given)})
    before = torch.openreg.memory_allocated(1)
    with FakeTensorMode():
        loaded = torch.load(file, map_location=where)["x"]
    assert isinstance(loaded, FakeTensor)
    assert loaded.device == torch.device(where or given)
    assert torch.openreg.memory_allocated(1) == before


def test_fake_tensors_of_the_device_become_files():
    with FakeTensorMode():
        x = torch.ones(5, device=HERE)
    with skip_data(materialize_fake_tensors=True):
        file = saved(x)
    loaded = torch.load(file)
    assert (type(loaded), loaded.device, loaded.shape) == (torch.Tensor, x.device, (5,))


# --- programs -----------------------------------------------------------------


class Training:
    """A net with dropout, whose every step depends on all that is saved."""

    def __init__(self, device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.net, self.device = net.to(device), device
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1, foreach=True)
        self.generator = torch.Generator(device)
        self.random = torch if device == "cpu" else torch.openreg
        self.random.manual_seed(1)

    def steps(self, count):
        for _ in range(count):
            x = torch.rand(8, 3, device=self.device, generator=self.generator)
            self.optimizer.zero_grad()
            self.net(x).square().sum().backward()
            self.optimizer.step()
        return {name: x.cpu() for name, x in self.net.state_dict().items()}

    def state(self):
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "random": self.random.get_rng_state(),
        }

    def set_state(self, state):
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"].cpu())
        self.random.set_rng_state(state["random"].cpu())


@pytest.mark.parametrize("first", ["cpu", "openreg:0"])
@pytest.mark.parametrize("then", ["cpu", "openreg:0"])
def test_training_resumes_from_a_file_with_the_same_numbers(first, then):
    expected = Training("cpu").steps(6)
    begun = Training(first)
    begun.steps(3)
    file = saved(begun.state())
    resumed = Training(then)
    resumed.steps(1)  # of no consequence
    resumed.set_state(torch.load(file, map_location=then, weights_only=True))
    found = resumed.steps(3)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


LOAD = """
import torch
try:
    torch.load("file")
except RuntimeError as error:
    print(error)
print(torch.load("file", map_location="cpu"))
"""


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("OPENREG_DEVICE_COUNT", "1", "1 but torch.openreg.device_count() is 1."),
        ("OPENREG_DEVICE_COUNT", "0", "torch.openreg.is_available() is False."),
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", "(tagged with openreg:1)"),
    ],
)
def test_a_file_of_a_device_that_is_not_there_can_be_read(
    run_python, tmp_path, name, value, words
):
    torch.save(torch.ones(2, device="openreg:1"), tmp_path / "file")
    refusal, loaded = run_python(LOAD, **{name: value}).splitlines()
    assert words in refusal
    assert "map_location" in refusal or "BACKEND" in name  # the way out
    assert loaded == "tensor([1., 1.])"


BROKEN = """
import io, torch
x, other = torch.ones(2, device="openreg:0"), torch.ones(2, device="openreg:1")
x[torch.tensor([1], device="openreg:0")]
x[torch.tensor([5], device="openreg:0")]
for tensor in (x, other):
    file = io.BytesIO()
    try:
        torch.save(tensor, file)
        file.seek(0)
        print("saved", torch.load(file, map_location="cpu").tolist())
    except torch.AcceleratorError as error:
        print(str(error).splitlines()[0])
try:
    file.seek(0)
    torch.load(file, map_location="openreg:0")
except torch.AcceleratorError as error:
    print(str(error).splitlines()[0])
"""


def test_a_broken_device_is_not_saved_and_the_others_are(run_python):
    broken = "OpenReg error: device-side assert triggered"
    assert run_python(BROKEN).splitlines() == [broken, "saved [1.0, 1.0]", broken]
