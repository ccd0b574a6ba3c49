"""What the caches of compiled code must know of us."""

import functools
import hashlib
from pathlib import Path

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.utils import parallel_num_threads

import torch_openreg


_PACKAGE = Path(torch_openreg.__file__).parent
_HEAD = 4096  # the build id of a library is in there


@functools.cache
def _fingerprint() -> str:
    """Of our version, and of all that decides what is generated and what it runs on:
    fake kernels tell strides, which compiled code relies on."""
    digest = hashlib.sha256(torch_openreg.__version__.encode())
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(source.read_bytes())
    for library in sorted(_PACKAGE.glob("lib/*.so")):
        with library.open("rb") as file:
            digest.update(file.read(_HEAD))
    return digest.hexdigest()


class Rules(CustomGraphModulePass):
    """A pass that changes nothing: Inductor hashes the name of a backend's pass into
    the keys of its caches, so no entry of other rules is ever used. C++ is written for a
    number of threads, which Inductor adds to keys of the CPU's graphs only."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        pass

    def uuid(self) -> str:
        return f"torch_openreg-{_fingerprint()}-{parallel_num_threads()}"
