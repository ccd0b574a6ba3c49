"""Libraries of operators that device processes load (OPENREG_DEVICE_LIBRARIES)."""

import os
import subprocess

import pytest
from torch.utils import cpp_extension

SOURCE = """
#include <torch/library.h>
#include <ATen/ops/mul.h>
#include <unistd.h>

TORCH_LIBRARY(crosses, library) {
  library.def("twice(Tensor x) -> Tensor");
  library.def("process(Tensor x) -> int");
  library.def("wait(Tensor(a!) x) -> ()");
}
TORCH_LIBRARY_IMPL(crosses, CPU, library) {
  library.impl("twice", [](const at::Tensor& x) { return at::mul(x, 2); });
  library.impl("process", [](const at::Tensor& x) { return int64_t{getpid()}; });
  library.impl("wait", [](at::Tensor& x) {
    for (;;) {
      pause();
    }
  });
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    source, library = folder / "crosses.cpp", folder / "crosses.so"
    source.write_text(SOURCE)
    command = [
        *(os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-shared", "-fPIC"),
        *(f"-isystem{path}" for path in cpp_extension.include_paths()),
        *(source, "-o", library),
        *(f"-L{path}" for path in cpp_extension.library_paths()),
        *("-ltorch_cpu", "-lc10"),
    ]
    subprocess.run(command, check=True)
    return str(library)


@pytest.fixture
def run(run_python, library):
    def run(code, **options):
        before = f"""
import os, torch
from torch_openreg.device import device_processes
torch.ops.load_library({library!r})
x = torch.ones(3, device="openreg")
"""
        return run_python(before + code, OPENREG_EXECUTOR="process", **options)

    return run


OPERATORS = """
print(torch.ops.crosses.twice(x).tolist())
print(torch.ops.crosses.process(x) == os.getpid())
print([name for name in torch.openreg.fallback_report() if "not in" in name])
"""


def test_operators_of_a_library_that_the_process_has_loaded_run_there(run, library):
    told = run(OPERATORS, OPENREG_DEVICE_LIBRARIES=library).split("\n")
    assert told == ["[2.0, 2.0, 2.0]", "False", "[]"]


def test_operators_of_other_libraries_run_here_and_are_counted(run):
    told = run(OPERATORS).split("\n")
    there = "(not in the device process)"
    counted = f"['crosses::process {there}', 'crosses::twice {there}']"
    assert told == ["[2.0, 2.0, 2.0]", "True", counted]


def test_a_kernel_that_never_ends_can_be_ended_by_a_reset(run, library):
    code = """
import threading
waiting = threading.Thread(target=lambda: told.append(hear()))
told = []

def hear():
    try:
        torch.ops.crosses.wait(x)
        torch.openreg.synchronize()
    except torch.AcceleratorError as error:
        return error.error_code

waiting.start()
while not any("crosses::wait" in p.running for p in device_processes()):
    pass
torch.openreg.reset_device()
waiting.join()
print(told, torch.ones(3, device="openreg").neg_().sum().item())
"""
    assert run(code, OPENREG_DEVICE_LIBRARIES=library) == "[46] -3.0"
