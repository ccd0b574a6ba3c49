"""torch.openreg has the names of torch.cuda, with its signatures.

docs/parity.md has the names that are left out, and why.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch

from torch_openreg.openreg import _utils

PAGE = Path(__file__).parent.parent / "docs" / "parity.md"
SUBMODULES = (
    "amp",
    "graphs",
    "memory",
    "nvtx",
    "profiler",
    "random",
    "sparse",
    "streams",
)
# Called by PyTorch itself, or by libraries.
PRIVATE = ("_get_generator", "_lazy_call", "_lazy_init", "_sleep")


def public(module):
    """Names of a module that are its own."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isclass(value)
    }


@functools.cache
def cuda_names():
    """Public names of torch.cuda and of its submodules: "memory.empty_cache"."""
    names = public(torch.cuda)
    for submodule in SUBMODULES:
        module = importlib.import_module(f"torch.cuda.{submodule}")
        names |= {f"{submodule}.{name}" for name in public(module)}
    # torch without CUDA has no types of sparse CUDA tensors; those of the CPU do.
    return names | {f"sparse.{name}" for name in sparse_types()}


def sparse_types():
    classes = {cls for cls in torch._tensor_classes if cls.is_sparse}
    return {cls.__name__ for cls in classes if cls.__module__ == "torch.sparse"}


@functools.cache
def tables():
    """The tables of the page, by the heading of their second column."""
    row = re.compile(r"^\| (.+?) +\| (.+?) +\|$", re.MULTILINE)
    found, heading = {}, None
    for first, second in row.findall(PAGE.read_text()):
        if first.endswith("`torch.cuda`"):
            heading = second
            found[heading] = {}
        elif heading and re.fullmatch(r"`[\w.]+`", first):
            assert first not in found[heading], "a row is there twice"
            found[heading][first.strip("`")] = second.strip("`")
        elif not set(first) <= set("-"):
            heading = None
    return found


def left_out():
    return tables()["why"]


def ours(name):
    """What openreg has for a name of torch.cuda; raises AttributeError."""
    thing = torch.openreg
    for part in tables()["`torch.openreg`"].get(name, name).split("."):
        thing = getattr(thing, part)
    return thing


def theirs(name):
    thing = torch.cuda
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def exists(name):
    try:
        ours(name)
    except AttributeError:
        return False
    return True


def test_every_name_of_cuda_exists_or_is_left_out_with_a_reason():
    missing = {name for name in cuda_names() if not exists(name)}
    assert sorted(missing - left_out().keys()) == []


def test_nothing_is_left_out_without_need():
    assert sorted(name for name in left_out() if exists(name)) == []
    renamed = tables()["`torch.openreg`"]
    assert sorted((left_out().keys() | renamed.keys()) - cuda_names()) == []
    assert all(tables()["why"].values())


def test_no_more_is_left_out_than_is_known():
    names = cuda_names()
    found = {name for name in names if exists(name)}
    assert len(found) >= 0.95 * len(names), f"{len(found)} of {len(names)}"


def parameters(function):
    """Names, kinds and defaults; the name of the device aside."""
    found = inspect.signature(function).parameters.values()
    text = [(p.name, p.kind, repr(p.default)) for p in found]
    replaced = [(n.replace("cuda", "openreg"), k, d) for n, k, d in text]
    return [(n, k, d.replace("cuda", "openreg")) for n, k, d in replaced]


def has_signature(name):
    # The types of tensors are made by C, and those of storages have torch's own.
    if name.endswith(("Tensor", "Storage")) or not callable(theirs(name)):
        return False
    try:
        inspect.signature(theirs(name))
    except ValueError:  # an exception without a constructor of its own
        return False
    return True


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in cuda_names() - left_out().keys() | set(PRIVATE)
        if not name.startswith("sparse.") and has_signature(name)
    ),
)
def test_signatures_are_those_of_cuda(name):
    assert parameters(ours(name)) == parameters(theirs(name))


def test_device_arguments_are_understood_as_cudas():
    cuda = torch.cuda._utils._get_device_index
    assert parameters(_utils._get_device_index) == parameters(cuda)


def test_all_lists_every_name_and_nothing_else():
    listed = torch.openreg.__all__
    assert listed == sorted(set(listed))
    assert [name for name in listed if not hasattr(torch.openreg, name)] == []
    top = {name for name in cuda_names() - left_out().keys() if "." not in name}
    wanted = {tables()["`torch.openreg`"].get(name, name) for name in top}
    assert sorted(wanted - set(listed)) == []


# --- docstrings and types -------------------------------------------------------


def own_things():
    """(name, thing) for each public name of ours and each method of our classes."""
    for prefix in ("", *SUBMODULES):
        module = getattr(torch.openreg, prefix) if prefix else torch.openreg
        for name in sorted(public(module)):
            thing = getattr(module, name)
            path = f"{prefix}.{name}".lstrip(".")
            yield path, thing
            ours = getattr(thing, "__module__", "").startswith("torch_openreg")
            if inspect.isclass(thing) and ours:
                for method, member in vars(thing).items():
                    if not method.startswith("_") or method in ("__init__", "__new__"):
                        yield f"{path}.{method}", member


def test_every_public_name_has_a_docstring():
    stream = "graph.default_capture_stream"  # None, or the stream of captures
    constants = {"has_half", "has_magma", stream, f"graphs.{stream}"}
    without = [
        name
        for name, thing in own_things()
        if name not in constants
        and not name.endswith(("__init__", "__new__"))
        and not isinstance(thing, int)
        and not inspect.getdoc(thing)
    ]
    assert without == []


def untyped(function):
    """Parameters without a type, and "return" if that has none."""
    signature = inspect.signature(function)
    found = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.annotation is parameter.empty
        and parameter.name not in ("self", "cls")
    ]
    if signature.return_annotation is signature.empty:
        found.append("return")
    return found


def test_every_public_function_has_types():
    without = {}
    for name, thing in own_things():
        if name.startswith("amp."):
            continue  # CUDA's have none, and signatures are compared
        function = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
        own = getattr(function, "__module__", "").startswith("torch_openreg")
        if own and inspect.isfunction(function) and untyped(function):
            without[name] = untyped(function)
    assert without == {}


def test_a_missing_type_would_be_seen():
    assert untyped(lambda x: x) == ["x", "return"]
    assert "empty_cache" in dict(own_things())
    assert "Stream.wait_event" in dict(own_things())
