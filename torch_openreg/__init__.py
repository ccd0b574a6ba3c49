"""OpenReg: a device made of software, as a PyTorch backend.

``import torch`` finds this package by its entry point and loads it, after which
``torch.openreg`` and the device ``"openreg"`` exist. Importing it by hand does the
same, before or after torch; ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` keeps torch from
loading it.

Before torch is imported, ``torch_openreg.cuda`` can choose another name for the device.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any

from torch_openreg._on_import import on_import

__version__ = "0.1.0"

_loaded = False


def _autoload() -> None:
    """Put the device into torch; once, however often it is called."""
    global _loaded
    # If torch is not imported yet, its import calls this function again, and has done
    # the work when it ends.
    import torch  # noqa: F401

    if _loaded:
        return
    from torch_openreg import _device_name

    if _device_name.IS_CUDA:
        _load_library()
        from torch_openreg.cuda import _torch

        _torch.install()
    else:
        _add_device()

    from torch_openreg import distributed, dynamo

    dynamo.install()
    on_import("torch._inductor.compile_fx", _load_compiler)
    on_import("torch._inductor.cudagraph_trees", _load_trees)
    distributed._register()
    on_import("torch.export.pt2_archive._package", _load_packages)
    _loaded = True
    if os.environ.get("OPENREG_SANITIZE"):
        from torch_openreg.sanitizer import _environment

        _environment.start()


def _add_device() -> None:
    """Give PyTorch's slot for out-of-tree backends the name of the device."""
    import torch

    # The slot first: loading the library fills it with kernels.
    _check_slot(torch._C._get_privateuse1_backend_name())
    _load_library()

    from torch_openreg import openreg

    torch.utils.rename_privateuse1_backend("openreg")
    torch._register_device_module("openreg", openreg)
    # `import torch.openreg.memory` must find the module that is there instead
    # of loading its file a second time.
    for name, module in list(sys.modules.items()):
        if name.startswith("torch_openreg.openreg."):
            sys.modules[name.replace("torch_openreg", "torch", 1)] = module
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # A lazy module can be moved before it knows its shapes, as by cuda().
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(
        torch.Tensor.openreg
    )
    openreg._metadata._install()
    openreg._sharing._install()
    openreg._dlpack._install()


def _load_compiler() -> None:
    from torch_openreg import _names

    with _names.say_the_way_out():
        from torch_openreg import inductor  # noqa: F401


def _load_trees() -> None:
    from torch_openreg import _names

    with _names.say_the_way_out():
        from torch_openreg.inductor import _trees

        _trees.install()


def _load_packages() -> None:
    from torch_openreg import packages

    packages.install()


def _check_slot(holder: str) -> None:
    """PyTorch has one slot for an out-of-tree backend; check that it is free."""
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


# --- before torch -------------------------------------------------------------


_WITHOUT_TORCH = ("cuda", "_device_name", "sanitize")


class _TorchFirst:
    """Imports torch, and with it the device, before any module of this package that
    needs both."""

    @staticmethod
    def find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        package, _, part = name.partition(".")
        if package != __name__ or part.split(".")[0] in _WITHOUT_TORCH:
            return None
        sys.meta_path.remove(_TorchFirst)
        import torch  # noqa: F401

        # The machinery would load again what it finds there.
        loaded = sys.modules.pop(name, None)
        return loaded and _LoadedModule(loaded).find_spec(name, path)


class _LoadedModule:
    """Finds and loads a module that torch's import has loaded. `python -m` looks for
    a package before it imports it, so it is found until it is imported."""

    def __init__(self, module: Any) -> None:
        self.module, self.spec = module, module.__spec__
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != self.spec.name:
            return None
        is_package = hasattr(self.module, "__path__")
        return ModuleSpec(name, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> Any:
        sys.meta_path.remove(self)
        return self.module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self.spec


def __getattr__(name: str) -> Any:
    if _TorchFirst in sys.meta_path and name in ("distributed", "dynamo", "openreg"):
        import torch  # noqa: F401

        return globals()[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


if os.environ.get("OPENREG_AS", "openreg") != "openreg":
    from torch_openreg.cuda import _start

    _start.prepare()
if "torch" in sys.modules:
    _autoload()
else:
    sys.meta_path.insert(0, _TorchFirst)
    on_import("torch", _autoload)
