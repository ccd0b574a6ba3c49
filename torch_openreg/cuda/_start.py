"""Has ``import torch`` find the device where CUDA would be."""

import ctypes
import os
import sys
from pathlib import Path

from torch_openreg._on_import import on_import

from . import _settings

_WAYS = (
    "start the program with `python -m torch_openreg.cuda program.py`, or set "
    "OPENREG_AS=cuda in its environment"
)
_waiting = False


def enable() -> None:
    """Let this process, and those it starts, use the device under the name "cuda".

    Comes before ``import torch``, whose first step fills the places of CUDA.
    """
    if _waiting:
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "torch_openreg.cuda.enable() came after `import torch`, which has settled "
            f"by now that there is no CUDA: call it before, {_WAYS}"
        )
    os.environ["OPENREG_AS"] = "cuda"
    prepare()


def prepare() -> None:
    """Wait for the import of torch. A second call does nothing."""
    global _waiting
    if _waiting:
        return
    if "torch._C" in sys.modules:
        raise RuntimeError(
            "OPENREG_AS=cuda was set after `import torch` began, too late for this "
            f"process: {_WAYS} before it starts"
        )
    _waiting = True
    # The first module of torch that is loaded, before the libraries.
    on_import("torch.version", _load_library)
    on_import("torch._C", _set_names)


def _load_library() -> None:
    """PyTorch asks for CUDA's hooks while torch._C is loaded, and keeps the answer."""
    version = sys.modules["torch.version"]
    if version.cuda or version.hip:
        built_for = f"CUDA {version.cuda}" if version.cuda else f"ROCm {version.hip}"
        raise RuntimeError(
            f"OPENREG_AS=cuda needs a torch built without CUDA, but this one is for "
            f"{built_for}: unset OPENREG_AS to use it with a GPU, or install torch's "
            "build for the CPU in its place"
        )
    _settings.translate()
    _say_so()
    torch_libraries = Path(version.__file__).parent / "lib"
    ours = Path(__file__).parent.parent / "lib"
    for library in (
        torch_libraries / "libtorch_cpu.so",  # which ours would not find by itself
        ours / "libtorch_openreg.so",
    ):
        ctypes.CDLL(str(library), mode=os.RTLD_NOW)


def _say_so() -> None:
    # OPENREG_QUIET: 1 keeps `torch_openreg.cuda` from saying on stderr that CUDA is
    # software. Default: 0.
    if os.environ.get("OPENREG_QUIET", "0") == "0":
        print(
            "torch_openreg: CUDA is software in this process and its children, run by "
            "the CPU; numbers are the CPU's, times are not a GPU's "
            "(OPENREG_QUIET=1 mutes this line)",
            file=sys.stderr,
        )
        os.environ["OPENREG_QUIET"] = "1"  # for the children


def _set_names() -> None:
    from . import _names

    _names.install()
