"""Builds halve.cpp against the installed package, loads it and calls the operator."""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load
from torch_openreg import utils

(libraries,) = utils.library_paths()
load(
    "demo",
    [str(Path(__file__).with_name("halve.cpp"))],
    extra_cflags=["-std=c++20"],
    extra_include_paths=utils.include_paths(),
    extra_ldflags=[f"-L{libraries}", "-ltorch_openreg", f"-Wl,-rpath,{libraries}"],
    is_python_module=False,
)
print(torch.ops.demo.halve(torch.tensor([3.0, 4.0], device="openreg")))
