"""The device "pychip", in Python alone: for a chip that is still being designed.

A tensor of the device is a shell: PyTorch keeps its shape and its storage, and the
storage carries the chip's memory, here bytes of the host. A simulator keeps its own
object there. `import torch_pychip` is all that a program needs.
"""

import sys
from collections import Counter

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
set_view = torch.ops.aten.set_.source_Storage_storage_offset

# Operators that had no kernel of the chip, and how often: what to write next.
fallbacks = Counter()

# --- torch.pychip: what PyTorch asks of the module of a device ------------------

device_count = torch._C._accelerator_hooks_device_count
_is_in_bad_fork = bool  # False: there are no threads that a fork could lose


def is_available():
    return True


def current_device():
    return 0


def manual_seed_all(seed):
    """Random numbers are drawn from the CPU's generator, which torch has seeded."""


# The hooks and the guard of PyTorch's facility know one device, which is always there.
_setup_privateuseone_for_python_backend("pychip", sys.modules[__name__])

# --- tensors and memory ---------------------------------------------------------


def is_ours(value):
    return isinstance(value, torch.Tensor) and value.device.type == "pychip"


def with_bits_of(source, target):
    """Lazy conjugation and negation are bits of a tensor, not of its memory."""
    torch._C._set_conj(target, source.is_conj())
    torch._C._set_neg(target, source.is_neg())
    return target


def on_host(value):
    """The chip's memory instead of a tensor or storage, without a copy. Keeps the rest."""
    if is_ours(value):
        view = (value.storage_offset(), value.size(), value.stride())
        host = torch.empty(0, dtype=value.dtype)
        host.set_(value.untyped_storage().memory, *view)
        return with_bits_of(value, host)
    if isinstance(value, torch.UntypedStorage) and value.device.type == "pychip":
        return value.memory
    if isinstance(value, torch.device) and value.type == "pychip":
        if value.index:
            raise RuntimeError(f"no {value}: there is 1 device, pychip:0")
        return torch.device("cpu")
    return value


def place(tensor, host, storage):
    """Makes `tensor` see the part of `storage` that `host` sees of its memory."""
    view = (host.storage_offset(), host.size(), host.stride())
    set_view.redispatch(META, tensor, storage, *view)


def on_device(host, storages):
    """A tensor of the device over the memory of `host`, which it shares with others
    if their storage is among `storages`: then it is a view."""
    shell = torch._C._acc.create_empty_tensor((0,), host.dtype)
    memory = host.untyped_storage()
    storage = storages.setdefault(memory._cdata, shell.untyped_storage())
    storage.memory = memory
    place(shell, host, storage)
    return with_bits_of(host, shell)


# --- storages -------------------------------------------------------------------


def storage_of(memory):
    host = torch.empty(0, dtype=torch.uint8).set_(memory)
    return on_device(host, {}).untyped_storage()


def method(name, ours):
    """A method that torch.save or deepcopy calls. PyTorch's would allocate memory of
    the device, which only an allocator in C++ can."""
    theirs = getattr(torch.UntypedStorage, name)

    def either(self, *args, **kwargs):
        if self.device.type == "pychip":
            return ours(self.memory)
        return theirs(self, *args, **kwargs)

    setattr(torch.UntypedStorage, name, either)


method("clone", lambda memory: storage_of(memory.clone()))
method("cpu", lambda memory: memory.clone())
method("data_ptr", lambda memory: memory.data_ptr())
torch.serialization.register_package(
    0,  # before PyTorch's own
    lambda storage: "pychip:0" if storage.device.type == "pychip" else None,
    lambda host, tag: storage_of(host) if tag.startswith("pychip") else None,
)

# --- operators ------------------------------------------------------------------


def fallback(op, *args, **kwargs):
    """Every operator without a kernel: the CPU's, on the memory of the chip."""
    fallbacks[op.name()] += 1
    inputs = tree_leaves((args, kwargs))
    ours = [value for value in inputs if is_ours(value)]
    for value in inputs:
        if ours and isinstance(value, torch.Tensor) and value.is_cpu and value.dim():
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found pychip:0 and"
                f" cpu in {op.name()}: use .to('pychip')"
            )
    storages = {
        on_host(storage)._cdata: storage
        for storage in [x.untyped_storage() for x in ours]
        + [x for x in inputs if isinstance(x, torch.UntypedStorage)]
    }
    hosts = {id(x): on_host(x) for x in ours}

    def lower(value):
        return hosts[id(value)] if is_ours(value) else on_host(value)

    results = op(*tree_map(lower, args), **tree_map(lower, kwargs))
    for tensor in ours:  # out= and resize_ change what a tensor sees
        host = hosts[id(tensor)]
        storage = storages.get(host.untyped_storage()._cdata)
        place(tensor, host, storage or on_device(host, storages).untyped_storage())
    given = {id(host): tensor for tensor in ours for host in [hosts[id(tensor)]]}

    def lift(value):
        if not isinstance(value, torch.Tensor):
            return value
        return given[id(value)] if id(value) in given else on_device(value, storages)

    return tree_map(lift, results)


def _copy_from(source, target, non_blocking=False):
    on_host(target).copy_(on_host(source))
    return target


def relu(x):
    """A kernel of the chip. Here a simulator would run: it has the memory."""
    return on_device(on_host(x).clamp(min=0), {})


everything = torch.library.Library("_", "IMPL")
everything.fallback(fallback, "PrivateUse1")
aten = torch.library.Library("aten", "IMPL")
aten.impl("_copy_from", _copy_from, "PrivateUse1")
aten.impl("relu", relu, "PrivateUse1")
for key in ("Conjugate", "Negative"):  # a copy resolves them itself
    aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
