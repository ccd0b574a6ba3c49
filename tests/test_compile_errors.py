"""What torch.compile says where it cannot compile for the device, and the way out."""

import errno
import os
from unittest import mock

import pytest
import torch
from torch._inductor.lowering import lowerings
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._inductor.utils import fresh_cache

from torch_openreg.dynamo.cache_folder import say_where_to_write

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()


@pytest.mark.slow
def test_without_a_compiler_there_is_a_way_out(run_python, tmp_path):
    code = """
import torch
try:
    torch.compile(lambda x: x + 1)(torch.ones(3, device="openreg"))
except Exception as error:
    print(error)
"""
    environment = {"CXX": "/nowhere/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    assert "backend='openreg'" in run_python(code, **environment)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(number):
    refusal = OSError(number, os.strerror(number), "/cache/of/others")
    written = mock.patch("torch._inductor.codecache.write_atomic", side_effect=refusal)
    sentence = f"/cache/of/others: {os.strerror(number)}. Set TORCHINDUCTOR_CACHE_DIR"
    with fresh_cache(), written, pytest.raises(RuntimeError, match=sentence):
        torch.compile(lambda x: x * 7 - 1)(torch.ones(3, device="openreg"))


@pytest.mark.parametrize("below", [pytest.param("", marks=pytest.mark.slow), "/folder"])
def test_a_cache_folder_that_is_a_file_is_named_with_a_way_out(
    below, run_python, tmp_path
):
    file = tmp_path / "file"
    file.touch()
    code = "import torch; torch.compile(torch.sin)"
    failed = run_python(code, check=False, TORCHINDUCTOR_CACHE_DIR=f"{file}{below}")
    last = failed.stderr.splitlines()[-1]
    assert f"cannot write its code to {file}{below}: " in last
    assert "Set TORCHINDUCTOR_CACHE_DIR to a folder of your own" in last


def test_a_cache_folder_that_cannot_exist_is_named_with_a_way_out(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/proc/nope")
    with pytest.raises(
        FileNotFoundError, match="cannot write its code to /proc/nope: "
    ):
        cache_dir()


def test_a_missing_file_is_not_reported_as_an_unwritable_folder():
    gone = FileNotFoundError(errno.ENOENT, "No such file", "g++")
    with pytest.raises(FileNotFoundError) as raised, say_where_to_write():
        raise gone
    assert raised.value is gone


def test_an_operator_that_cannot_be_lowered_is_named_with_a_way_out():
    def refuse(*args, **kwargs):
        raise NotImplementedError("no such kernel")

    lowered = mock.patch.dict(lowerings, {torch.ops.aten.sin.default: refuse})
    function = torch.compile(lambda x: x.sin() * 9)
    with fresh_cache(), lowered, pytest.raises(RuntimeError) as raised:
        function(torch.ones(3, device="openreg"))
    for words in ("aten.sin.default", "torch.compiler.disable", "backend='openreg'"):
        assert words in str(raised.value)


MIXED = {
    "the CPU": (torch.add, "cpu", "openreg:0 and cpu!"),
    "another device": (torch.add, "openreg:1", "openreg:0 and openreg:1!"),
    "a product": (torch.mm, "cpu", "openreg:0 and cpu!"),
    "a table": (torch.nn.functional.embedding, "cpu", "cpu and openreg:0!"),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("backend", ["inductor", "openreg"])
def test_a_mix_up_of_devices_is_refused_with_cudas_sentence(name, backend):
    function, device, named = MIXED[name]
    first = torch.zeros(2, 2, device="openreg", dtype=torch.int64)
    with pytest.raises(
        RuntimeError,
        match="Expected all tensors to be on the same device, but found at least two "
        f"devices, {named}",
    ):
        torch.compile(function, backend=backend)(first, first.to(device))


def test_a_program_that_worked_refuses_a_tensor_of_another_device():
    double = torch.compile(lambda x, y: x * 2 + y, backend="openreg")
    x = torch.ones(2, device="openreg")
    double(x, x)
    with pytest.raises(RuntimeError, match="found at least two devices, openreg:0 and"):
        double(x, x.cpu())


def test_indices_to_split_at_are_to_be_on_the_cpu_compiled_or_not():
    """On CUDA too."""
    x, at = torch.arange(6.0, device="openreg"), torch.tensor([1, 3])
    split = torch.compile(torch.tensor_split, backend="openreg")
    for ours, theirs in zip(split(x, at), torch.tensor_split(x, at), strict=True):
        assert torch.equal(ours, theirs)
    for function in (split, torch.tensor_split):
        with pytest.raises(RuntimeError, match="to be on cpu|must be on CPU"):
            function(x, at.to("openreg"))
