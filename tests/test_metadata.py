"""Metadata of tensors: any names and types, kept with the memory."""

import copy
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.multiprocessing as mp
from torch_openreg import _C

ENTRIES = {
    "name": "encoder.weight",
    "layout": ("tiled", 16, 16),
    "placement": {"bank": 3, "pinned": True},
    "handle": 0xDEADBEEF,
    "scale": 0.5,
    "raw": b"\0\1",
    "dtype": torch.bfloat16,
    "frozen": False,
    "nothing": None,
}


@pytest.fixture
def described():
    x = torch.arange(6.0, device="openreg:1").view(2, 3)
    torch.openreg.set_tensor_metadata(x, ENTRIES)
    return x


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def loaded(data, **options):
    return torch.load(io.BytesIO(data), **options)


get = torch.openreg.get_tensor_metadata


@pytest.mark.parametrize(
    "same",
    [
        lambda x: x,
        lambda x: x.t()[1:],
        lambda x: x.detach(),
        lambda x: x.resize_(100),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.clone(),
        lambda x: x.t().contiguous(),
        lambda x: x.to("openreg:0"),
        lambda x: x.half(),
        lambda x: torch.nn.Parameter(x).clone().detach(),
        lambda x: x.clone(memory_format=torch.preserve_format).to("openreg:0").clone(),
        copy.deepcopy,
        lambda x: loaded(saved(x)),
        lambda x: loaded(saved(x), weights_only=False),
        lambda x: loaded(saved(x[0])),
        lambda x: loaded(saved(x), map_location="openreg:0"),
        lambda x: loaded(saved(torch.nn.Parameter(x))),
    ],
)
def test_the_entries_stay_with_the_memory_and_its_copies(same, described):
    assert get(same(described)) == ENTRIES


def test_views_share_their_entries(described):
    torch.openreg.set_tensor_metadata(described[0], {"name": "row", "extra": 1})
    assert get(described) == {**ENTRIES, "name": "row", "extra": 1}


def test_what_was_read_is_a_copy(described):
    get(described)["name"] = "other"
    assert get(described) == ENTRIES


def test_what_operators_make_has_none(described):
    for y in (described + 1, described.softmax(0), torch.empty_like(described)):
        assert get(y) == {}


@pytest.mark.parametrize("copied", [copy.deepcopy, torch.clone])
def test_a_copy_has_entries_of_its_own(copied, described):
    y = copied(described)
    torch.openreg.set_tensor_metadata(y, {"name": "copy"})
    assert get(described) == ENTRIES
    torch.openreg.set_tensor_metadata(described, {"name": "first"})
    assert get(y) == {**ENTRIES, "name": "copy"}


def test_a_target_keeps_its_own(described):
    y = torch.zeros_like(described)
    assert get(y.copy_(described)) == {}
    torch.openreg.set_tensor_metadata(y, {"name": "target"})
    assert get(y.copy_(described)) == {"name": "target"}


def test_another_storage_has_other_entries(described):
    other = torch.ones(6, device="openreg:1")
    described.set_(other.untyped_storage())
    assert get(described) == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(4, device="openreg"),
        lambda: torch.empty_strided((2, 2), (1, 2), device="openreg"),
        lambda: torch.ones(4, device="openreg") + 1,  # a structured kernel's output
        lambda: torch.ones(4).to("openreg"),
        lambda: torch.tensor([], device="openreg").set_(
            torch.UntypedStorage(16, device="openreg")
        ),
        lambda: torch.ones(4, device="openreg").nonzero(),  # the CPU's kernel made it
        lambda: torch.from_dlpack(torch.ones(4, device="openreg")),
        lambda: torch._lazy_clone(torch.ones(4, device="openreg")),
    ],
)
def test_every_storage_has_room(make):
    x = make()
    torch.openreg.set_tensor_metadata(x, {"name": "x"})
    assert get(x[:]) == get(x.clone()) == {"name": "x"}


def test_descriptions_end_with_their_storages():
    """Another storage at the same address has nothing of them."""
    for _ in range(100):
        x = torch.ones(4, device="openreg").nonzero()
        assert get(x) == {}
        torch.openreg.set_tensor_metadata(x, {"name": "x"})
        address = x.data_ptr()
        del x
        assert _C._descriptionsAt(address, address + 8) == []


def test_threads_describe_at_once():
    def describe(number):
        for i in range(50):
            x = torch.ones(4, device="openreg")
            torch.openreg.set_tensor_metadata(x, {"name": (number, i)})
            y = x.clone()
            assert get(x) == get(y) == {"name": (number, i)}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(describe, range(4)))


def test_pytorchs_functions_take_any_type_too():
    x = torch.ones(2, device="openreg")
    torch._utils.set_tensor_metadata(x, {"count": 3, "none": None, "flag": True})
    found = torch._utils.get_tensor_metadata(x)
    assert found == {"count": 3, "none": None, "flag": True}
    assert type(found["count"]) is int
    assert get(x) == {"count": 3, "none": None}  # a flag is PyTorch's, of the tensor
    y = loaded(saved(x))
    assert torch._utils.get_tensor_metadata(y) == found


def test_conjugation_is_saved_beside_them():
    x = torch.tensor([1 + 2j], device="openreg")
    torch.openreg.set_tensor_metadata(x, {"name": "z"})
    y = loaded(saved(x.conj()))
    assert y.is_conj() and y.tolist() == [1 - 2j] and get(y) == {"name": "z"}


def test_a_file_can_be_loaded_elsewhere(described, tmp_path):
    torch.save(described, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", map_location="cpu").tolist()[1] == [3, 4, 5]
    program = "import torch; print(torch.load('x.pt', map_location='cpu').sum().item())"
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
    )
    assert result.stdout == "15.0\n", result.stderr


def receive(queue, answers):
    answers.put(get(queue.get()))


def test_entries_go_to_other_processes(described):
    spawn = mp.get_context("spawn")
    queue, answers = spawn.Queue(), spawn.Queue()
    process = spawn.Process(target=receive, args=(queue, answers))
    process.start()
    queue.put(described)
    assert answers.get(timeout=100) == ENTRIES
    process.join()


class Own:
    pass


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({1: "x"}, r"names of metadata are str, but got 1 \(int\)"),
        ({"x": Own()}, "'x' has a value of type Own, which torch.load would refuse"),
        ({"x": [lambda: 0]}, "'x' has a value of type list"),
    ],
)
def test_what_could_be_lost_is_refused(metadata, words, described):
    for set_metadata in (
        torch.openreg.set_tensor_metadata,
        torch._utils.set_tensor_metadata,
    ):
        with pytest.raises(TypeError, match=words):
            set_metadata(described, {"good": 1, **metadata})
    assert get(described) == ENTRIES


def test_only_tensors_of_the_device_have_entries():
    with pytest.raises(
        ValueError, match="openreg device with a storage, but got one of"
    ):
        torch.openreg.set_tensor_metadata(torch.ones(2), {"a": 1})
    with pytest.raises(ValueError, match="cpu with layout"):
        get(torch.ones(2))
    with pytest.raises(TypeError, match="expected a tensor, but got int"):
        get(3)


def test_entries_are_a_dict(described):
    with pytest.raises(TypeError, match="a dict of names and values, but got list"):
        torch.openreg.set_tensor_metadata(described, ["name"])
    assert get(described) == ENTRIES


@pytest.mark.in_threads("the sanitizer is refused there")
def test_reports_use_the_name():
    sanitizer = torch.openreg.sanitizer
    with pytest.raises(sanitizer.SanitizerError, match="`unwritten weights`"):
        with sanitizer.check("init"):
            x = torch.empty(4, device="openreg")
            torch.openreg.set_tensor_metadata(x, {"name": "unwritten weights"})
            x.tolist()
