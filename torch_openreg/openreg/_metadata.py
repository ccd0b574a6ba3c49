"""What a program says of a tensor's memory: any names, values of any type.

The description belongs to the storage, which is of a class of our own in C++ and holds
each value as it is pickled. ``torch.save`` writes a tensor's metadata as names with a
truth value, so an entry travels as such a name, which other machines skip.
"""

import base64
import collections
import io
import pickle
from typing import Any

import torch
from torch import _weights_only_unpickler

from torch_openreg import _C

_torch_get = torch._utils.get_tensor_metadata
_torch_set = torch._utils.set_tensor_metadata
_PREFIX = "openreg.storage:"


def _pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=2)


def _unpickled(data: bytes) -> Any:
    return _weights_only_unpickler.load(io.BytesIO(data))


def _encode(name: str, value: Any) -> str:
    return _PREFIX + base64.b64encode(_pickled((name, value))).decode()


def _decode(entry: str) -> tuple[str, Any]:
    return _unpickled(base64.b64decode(entry.removeprefix(_PREFIX)))


def _check(name: Any, value: Any) -> bytes:
    """The value as it is kept; refuses what a file could not give back."""
    if not isinstance(name, str):
        kind = type(name).__name__
        raise TypeError(f"names of metadata are str, but got {name!r} ({kind})")
    try:
        data = _pickled(value)
        _unpickled(data)
    except Exception as error:
        raise TypeError(
            f"the metadata {name!r} has a value of type {type(value).__name__}, which "
            "torch.load would refuse; use numbers, strings, bytes, None, dtypes, devices, "
            "and lists, tuples, sets or dicts of them"
        ) from error
    return data


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Of a tensor of the device; None for one of another, or without a storage."""
    if tensor.device.type != "openreg" or not torch._C._has_storage(tensor):
        return None
    return tensor.untyped_storage()


def _described_storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, but got {type(tensor).__name__}")
    storage = _storage_of(tensor)
    if storage is None:
        raise ValueError(
            "expected a tensor of an openreg device with a storage, but got one of "
            f"{tensor.device} with layout {tensor.layout}"
        )
    return storage


def description(storage: torch.UntypedStorage) -> dict[str, Any]:
    """The entries of a storage of the device."""
    entries = _C._description(storage).items()
    return {name: _unpickled(data) for name, data in entries}


def set_tensor_metadata(tensor: torch.Tensor, metadata: dict[str, Any]) -> None:
    """Add entries to what is known of a tensor's memory, or replace them.

    All tensors that share the memory have them; they stay through views, ``resize_``,
    saving, loading and sharing with other processes. A copy by ``clone()``, ``to()`` or
    ``copy.deepcopy()`` has a copy of them; what other operators make has none. An entry
    ``"name"`` is what reports of the sanitizer call the tensor.

    Args:
        tensor: of an openreg device
        metadata: names, and values that ``torch.load`` accepts
    """
    storage = _described_storage(tensor)
    if not isinstance(metadata, dict):
        kind = type(metadata).__name__
        raise TypeError(f"metadata are a dict of names and values, but got {kind}")
    _C._describe(storage, {n: _check(n, value) for n, value in metadata.items()})


def get_tensor_metadata(tensor: torch.Tensor) -> dict[str, Any]:
    """The entries that :func:`set_tensor_metadata` has added for a tensor's memory."""
    return description(_described_storage(tensor))


def name_at(begin: int, end: int) -> str | None:
    """The entry ``"name"`` of the memory that has one of these bytes."""
    for entries in _C._descriptionsAt(begin, end):
        if "name" in entries:
            return str(_unpickled(entries["name"]))
    return None


# --- PyTorch's functions, which torch.save and torch.load call ----------------------


class _Saved(dict[str, Any]):
    """Metadata that is pickled as names with a truth value, as PyTorch's are."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        flags = {n: v for n, v in self.items() if isinstance(v, bool)}
        others = {_encode(n, v): True for n, v in self.items() if n not in flags}
        items = iter({**flags, **others}.items())
        return collections.OrderedDict, (), None, None, items


def _get(tensor: torch.Tensor) -> dict[str, Any]:
    flags = _torch_get(tensor)
    storage = _storage_of(tensor)
    entries = description(storage) if storage is not None else {}
    if not entries:
        return flags
    saved = _Saved(flags)
    # A truth value of the storage's would look like a flag of the tensor's.
    saved.update({n: v for n, v in entries.items() if not isinstance(v, bool)})
    saved.update(
        {_encode(n, v): True for n, v in entries.items() if isinstance(v, bool)}
    )
    return saved


def _set(tensor: torch.Tensor, metadata: dict[str, Any]) -> None:
    flags, entries = {}, {}
    for name, value in metadata.items():
        if isinstance(name, str) and name.startswith(_PREFIX):
            name, value = _decode(name)
            entries[name] = value
        elif isinstance(value, bool):
            flags[name] = value
        else:
            entries[name] = value
    if tensor.device.type != "openreg":
        # Loaded elsewhere: what is known of openreg's memory stays behind.
        travels = [name for name in metadata if str(name).startswith(_PREFIX)]
        flags = {n: v for n, v in metadata.items() if n not in travels}
    elif entries:
        set_tensor_metadata(tensor, entries)
    _torch_set(tensor, flags)


def _install() -> None:
    theirs = torch.UntypedStorage.clone

    def clone(self: torch.UntypedStorage) -> torch.UntypedStorage:
        copy = theirs(self)
        if self.device.type == "openreg":
            _C._describe(copy, _C._description(self))
        return copy

    torch.UntypedStorage.clone = clone
    torch._utils.get_tensor_metadata = _get
    torch._utils.set_tensor_metadata = _set
