"""Tensors, storages and events that go to other processes.

``torch.multiprocessing`` has no place for another device: its ``reduce_tensor``
knows CUDA and takes the rest for memory of the CPU. So this puts a function in
its place that deals with openreg tensors and leaves all others to it.
"""

import functools
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing import reductions

from torch_openreg import _C

from ._lazy import _lazy_init
from .streams import Event

_torch_reduce_tensor = reductions.reduce_tensor
_torch_reduce_storage = reductions.reduce_storage
_torch_is_shared = torch.UntypedStorage.is_shared


def ipc_collect() -> None:
    """Give back the memory of sent tensors that no process uses any more.

    It is also done with each tensor that is sent or deleted here, and before an
    allocation fails. Call it when neither happens for a while.
    """
    _lazy_init()
    _C._ipcCollect()


# docs:begin reduce-tensor
@functools.wraps(_torch_reduce_tensor)
def reduce_tensor(tensor):
    rebuild, args = _torch_reduce_tensor(tensor)  # with its refusals
    if rebuild is not reductions.rebuild_tensor:
        return rebuild, args
    cls, storage, metadata = args
    if storage._untyped_storage.device.type != "openreg":
        return rebuild, args
    _lazy_init()
    message = _C._sendStorage(storage._untyped_storage)
    where = storage._untyped_storage.device
    entries = _C._description(storage._untyped_storage)
    args = (cls, tensor.dtype, where, message, metadata, entries)
    return rebuild_openreg_tensor, args


def rebuild_openreg_tensor(cls, dtype, device, message, metadata, entries=()):
    _lazy_init()
    untyped = _rebuild_storage(device, message)
    _C._describe(untyped, dict(entries))
    storage = torch.storage.TypedStorage(
        wrap_storage=untyped, dtype=dtype, _internal=True
    )
    return reductions.rebuild_tensor(cls, storage, metadata)
    # docs:end reduce-tensor


def _rebuild_storage(device, message):
    if not message:
        return torch.UntypedStorage(0, device=device)
    storage = _C._receiveStorage(message)
    # Tensors that share a storage there must share one here, too.
    key = ("openreg", storage.data_ptr(), storage.nbytes())
    known = reductions.storage_from_cache(torch.UntypedStorage, key)
    if known is not None:
        return known
    reductions.shared_cache[key] = reductions.StorageWeakRef(storage)
    return storage


@functools.wraps(_torch_reduce_storage)
def reduce_storage(storage):
    if storage.device.type == "openreg":
        raise RuntimeError(
            "Cannot pickle OpenReg storage; try pickling a OpenReg tensor instead"
        )
    return _torch_reduce_storage(storage)


def reduce_event(event):
    handle = event.ipc_handle()  # which gives it a device
    return rebuild_event, (event.device, handle)


def rebuild_event(device, handle):
    return Event.from_ipc_handle(device, handle)


def _is_shared(self):
    return self.device.type == "openreg" or _torch_is_shared(self)


def _install():
    reductions.reduce_tensor = reduce_tensor
    reductions.reduce_storage = reduce_storage
    for cls, reduce in list(ForkingPickler._extra_reducers.items()):
        if reduce is _torch_reduce_tensor:
            ForkingPickler.register(cls, reduce_tensor)
        elif reduce is _torch_reduce_storage:
            ForkingPickler.register(cls, reduce_storage)
    ForkingPickler.register(Event, reduce_event)
    torch.UntypedStorage.is_shared = _is_shared
