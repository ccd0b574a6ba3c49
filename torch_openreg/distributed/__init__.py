"""``torch.distributed`` between openreg devices: the backend ``occl``.

``import torch`` makes it known; its library is loaded with the first group.
"""

import functools

import torch
from torch import distributed

from torch_openreg._device_name import IS_CUDA
from torch_openreg._on_import import on_import

__all__ = ["ProcessGroupOCCL"]


def _register() -> None:
    """Register occl with torch.distributed, if torch was built with it."""
    if distributed.is_available():
        if not IS_CUDA:  # there it is known as nccl
            _add_name()
        on_import("torch.distributed.tensor._random", _install_random)
        on_import(
            "torch.distributed.tensor.experimental._context_parallel._attention",
            _install_context,
        )


def _add_name() -> None:
    distributed.Backend.register_backend(
        "occl", _create, extended_api=True, devices=["openreg"]
    )
    # To find the default backend of "cpu:gloo,openreg:occl", c10d looks for the first
    # key of this dict, in capitals, among names in small letters.
    plugins = distributed.Backend._plugins
    distributed.Backend._plugins = {"occl": plugins["OCCL"], **plugins}
    _correct_default()


def _correct_default() -> None:
    """``init_process_group()`` without a name lets c10d choose the backend by the
    accelerator. Such a group has occl alone, but c10d calls gloo its default."""
    c10d = distributed.distributed_c10d
    helper = c10d._new_process_group_helper

    @functools.wraps(helper)
    def new_group(*args, **kwargs):
        group, store = helper(*args, **kwargs)
        if isinstance(group, distributed.ProcessGroup):
            here = torch.device("openreg")
            if (
                group._device_types == [here]
                and group._get_backend(here).name() == "occl"
            ):
                group._set_default_backend(distributed.ProcessGroup.BackendType.CUSTOM)
        return group, store

    c10d._new_process_group_helper = new_group


def _install_random() -> None:
    from . import _random

    _random.install()


def _install_context() -> None:
    from . import _context

    _context.install()


def _library():
    from torch_openreg import _distributed

    return _distributed


def _create(group, options):
    """What torch.distributed calls for each new group with this backend."""
    cls = _library().ProcessGroupOCCL
    if options is None:
        options = cls.Options()
    elif not isinstance(options, cls.Options):
        raise TypeError(
            "pg_options of occl must be torch_openreg.distributed.ProcessGroupOCCL"
            f".Options, but got {type(options).__name__}"
        )
    options._timeout = group.timeout
    options.global_ranks_in_group = group.global_ranks_in_group
    options.group_name = group.group_id
    return cls(group.store, group.group_rank, group.group_size, options)


def __getattr__(name):
    if name in ("ProcessGroupOCCL", "_dump_fr_trace"):
        return getattr(_library(), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
