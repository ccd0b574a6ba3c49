"""Compiled programs with another order of the work, and with kernels in a process of
their own. What is compiled already is found in the cache of this run."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
FILES = {
    "groups": ("test_compile_groups.py", "not sizes"),
    "networks": ("test_compile_networks.py", "not sizes"),
    "replays": ("test_reduce_overhead.py", ""),
    "packages": ("test_packages.py", ""),
    "cpp_wrapper": ("test_cpp_wrapper.py", ""),
}
ELSEWHERE = [{"OPENREG_SCHEDULE": "adversarial"}, {"OPENREG_EXECUTOR": "process"}]


@pytest.mark.parametrize("variables", ELSEWHERE, ids=lambda v: "-".join(v.values()))
@pytest.mark.parametrize("file, some", FILES.values(), ids=FILES)
def test_compiled_programs_work_elsewhere(file, some, variables, run_tests):
    if set(variables) & set(os.environ):
        pytest.skip("this is such a run")
    run_tests(HERE / file, "-m", "", "-k", some, "-q", timeout=1800, **variables)
