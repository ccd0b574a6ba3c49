"""PyTorch's device-generic tests run on openreg with one environment variable.

There is no checkout of PyTorch here; tests/pytorch/device_generic.py stands for one.
"""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parent / "pytorch" / "device_generic.py"
FLAGS = ["-p", "no:cacheprovider", "-v", "--tb=no", "-k", "not Broken"]


@functools.cache
def base_file():
    command = [sys.executable, "-m", "torch_openreg.testing"]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def run(*command, folder):
    return subprocess.run(
        [sys.executable, *command],
        # In CI PyTorch's runner wants a package for reports.
        env={**os.environ, "CI": "", "TORCH_TEST_DEVICES": base_file().strip()},
        cwd=folder,  # away from our conftest and settings
        text=True,
        capture_output=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What became of each test on openreg, by its name without the class."""
    folder = tmp_path_factory.mktemp("pytorch")
    (folder / "pytest.ini").touch()
    copy = folder / "device_generic.py"
    copy.write_bytes(FILE.read_bytes())
    result = run("-m", "pytest", *FLAGS, copy, folder=folder)
    assert result.returncode == 0, result.stdout
    line = re.compile(r"::(\w+)OPENREG::(\w+) (\w+)", re.MULTILINE)
    found = line.findall(result.stdout)
    assert "PRIVATEUSE1::" not in result.stdout, "the tests were made twice"
    return {f"{group}.{test}": outcome for group, test, outcome in found}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("TestGeneric.test_views_share_memory_openreg_bfloat16", "PASSED"),
        ("TestGeneric.test_equals_the_cpu_clamp_openreg_int64", "PASSED"),
        ("TestGeneric.test_equals_the_cpu_sort_openreg_float32", "PASSED"),
        ("TestGeneric.test_is_on_the_device_openreg", "PASSED"),
        ("TestGeneric.test_devices_openreg", "PASSED"),
        ("TestGeneric.test_for_the_cpu_openreg", "SKIPPED"),
        ("TestGeneric.test_for_cuda_openreg", "SKIPPED"),
        ("TestGeneric.test_not_for_backends_openreg", "SKIPPED"),
        ("TestFakeTensor.test_fake_abs_openreg_float32", "PASSED"),
        ("TestFakeTensor.test_fake_native_batch_norm_openreg_float32", "SKIPPED"),
        ("TestKnownOfTheCpu.test_fails_sin_openreg_float32", "XFAIL"),
    ],
)
def test_tests_in_pytorchs_style_run_on_openreg(outcomes, name, outcome):
    assert outcomes[name] == outcome


def test_dtypes_are_those_for_backends(outcomes):
    prefix = "TestGeneric.test_views_share_memory_openreg_"
    found = {name.removeprefix(prefix) for name in outcomes if name.startswith(prefix)}
    assert found == {"float32", "bfloat16", "bool"}


def test_a_broken_device_ends_the_run(tmp_path):
    result = run(FILE, "TestBrokenOPENREG", folder=tmp_path)
    assert "device-side assert" in result.stderr
    assert "test_later" not in result.stderr
    assert "Ran 1 test" in result.stderr


def test_every_exclusion_names_an_operator_and_a_reason():
    from torch.testing._internal.common_methods_invocations import op_db

    from torch_openreg.testing import EXCLUSIONS

    known = {op.full_name for op in op_db}
    assert [row for row in EXCLUSIONS if row.operator not in known] == []
    assert [row for row in EXCLUSIONS if not row.reason.endswith(".")] == []
