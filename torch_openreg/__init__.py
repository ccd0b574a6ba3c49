"""OpenReg: a device made of software, as a PyTorch backend.

``import torch`` finds this package by its entry point and loads it, after which
``torch.openreg`` and the device ``"openreg"`` exist. Importing it by hand does the
same, before or after torch; ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` keeps torch from
loading it.
"""

import sys

from torch_openreg._on_import import on_import

__version__ = "0.1.0"

_loaded = False


def _autoload() -> None:
    """Put the device into torch; once, however often it is called."""
    global _loaded
    # If this package is imported first, torch comes back here from its import,
    # and the work is done by the time that ends.
    import torch

    if _loaded:
        return
    # The slot first: loading the library fills it with kernels.
    _check_slot(torch._C._get_privateuse1_backend_name())
    _load_library()

    from torch_openreg import distributed, dynamo, openreg

    torch.utils.rename_privateuse1_backend("openreg")
    torch._register_device_module("openreg", openreg)
    # `import torch.openreg.memory` shall find the module that is there instead
    # of loading its file a second time.
    for name, module in list(sys.modules.items()):
        if name.startswith("torch_openreg.openreg."):
            sys.modules[name.replace("torch_openreg", "torch", 1)] = module
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # A lazy module can be moved before it knows its shapes, as by cuda().
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(
        torch.Tensor.openreg
    )
    openreg._sharing._install()
    openreg._dlpack._install()
    dynamo.install()
    on_import("torch._inductor.compile_fx", _load_compiler)
    on_import("torch._inductor.cudagraph_trees", _load_trees)
    distributed._register()
    on_import("torch.export.pt2_archive._package", _load_packages)
    _loaded = True


def _load_compiler() -> None:
    from torch_openreg import inductor  # noqa: F401


def _load_trees() -> None:
    from torch_openreg.inductor import _trees

    _trees.install()


def _load_packages() -> None:
    from torch_openreg import packages

    packages.install()


def _check_slot(holder: str) -> None:
    """PyTorch has one place for a backend from outside; see that it is free."""
    if holder != "privateuseone":
        raise RuntimeError(
            f"torch_openreg cannot add the device 'openreg': the backend '{holder}' "
            "has taken PyTorch's PrivateUse1 slot, and there is one per process. "
            "Uninstall one of the two packages, or set "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import the one you want."
        )


def _load_library() -> None:
    try:
        from torch_openreg import _C  # noqa: F401
    except ImportError as error:
        if error.path and error.path.endswith(".so"):
            what, cause = error.path, str(error)
        else:
            what, cause = f"{__path__[0]}/_C", "it is not built"
        raise ImportError(
            f"torch_openreg could not load {what}: {cause}. Build the package "
            "again with `pip install --no-build-isolation -e .` in its sources, or "
            "set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to use torch without it.",
            name=error.name,
            path=error.path,
        ) from error


_autoload()
