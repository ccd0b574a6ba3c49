"""safetensors: files from device memory, and into it.

It knows the names of some devices only; an index means the accelerator that there is.
"""

import pytest
import torch
from device_name import NAME
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, load_model, save, save_file, save_model
from torch import nn

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
]


def bits(tensor):
    """Bytes, which compare where values do not."""
    return tensor.cpu().reshape(-1).view(torch.uint8)


def make_tensors():
    """All dtypes: a matrix, a number and nothing."""
    found = {}
    for dtype in DTYPES:
        values = torch.randint(0, 2, (6, 8), dtype=torch.uint8)
        name = str(dtype).removeprefix("torch.")
        found[name] = (
            values.view(torch.bool) if dtype == torch.bool else values.to(dtype)
        )
        found[f"{name}.number"] = found[name][0, 0].clone()
        found[f"{name}.empty"] = found[name][:0].clone()
    return found


def test_a_file_of_the_device_has_the_bytes_of_the_cpu(tmp_path):
    there = make_tensors()
    here = {name: tensor.to(f"{NAME}:1") for name, tensor in there.items()}
    save_file(there, tmp_path / "cpu", metadata={"format": "pt"})
    save_file(here, tmp_path / NAME, metadata={"format": "pt"})
    files = [(tmp_path / name).read_bytes() for name in ("cpu", NAME)]
    assert len(files[0]) > 1000
    assert hash(files[0]) == hash(files[1])
    assert hash(save(here)) == hash(save(there))


@pytest.mark.parametrize("index", [0, 1])
def test_a_file_is_loaded_onto_a_device(index, tmp_path):
    expected = make_tensors()
    save_file(expected, tmp_path / "file")
    found = load_file(tmp_path / "file", device=index)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert tensor.device == torch.device(NAME, index)
        assert tensor.dtype == expected[name].dtype
        assert tensor.shape == expected[name].shape
        assert torch.equal(bits(tensor), bits(expected[name])), name


def test_parts_of_a_file_are_read_onto_the_device(tmp_path):
    matrix = torch.randn(6, 8)
    save_file({"matrix": matrix}, tmp_path / "file")
    with safe_open(tmp_path / "file", framework="pt", device=1) as file:
        assert list(file.keys()) == ["matrix"]
        part = file.get_slice("matrix")[2:4, ::1]
        whole = file.get_tensor("matrix")
    assert part.device == whole.device == torch.device(f"{NAME}:1")
    assert torch.equal(part.cpu(), matrix[2:4])
    assert torch.equal(whole.cpu(), matrix)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.words.weight


def test_a_model_with_tied_weights_is_saved_and_loaded(tmp_path):
    model = Tied().to(NAME)
    save_model(model, tmp_path / "file")
    assert list(load_file(tmp_path / "file")) == ["head.weight"]
    other = Tied().to(f"{NAME}:1")
    load_model(other, tmp_path / "file", device=1)
    assert other.head.weight is other.words.weight
    assert torch.equal(other.head.weight.cpu(), model.head.weight.cpu())


def test_shared_memory_is_found_on_the_device_too(tmp_path):
    matrix = torch.randn(4, 4, device=NAME)
    with pytest.raises(RuntimeError, match="share memory"):
        save_file({"whole": matrix, "same": matrix}, tmp_path / "file")
    with pytest.raises(ValueError, match="non contiguous"):
        save_file({"turned": matrix.t()}, tmp_path / "file")


def test_devices_that_do_not_exist_are_refused(tmp_path):
    save_file({"x": torch.ones(2)}, tmp_path / "file")
    with pytest.raises(RuntimeError, match="7"):
        load_file(tmp_path / "file", device=7)


@pytest.mark.skipif(NAME == "cuda", reason="the library knows CUDA's name")
def test_names_of_devices_are_refused(tmp_path):
    save_file({"x": torch.ones(2)}, tmp_path / "file")
    with pytest.raises(SafetensorError, match="device openreg:0 is invalid"):
        load_file(tmp_path / "file", device="openreg:0")
