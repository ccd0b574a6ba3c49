"""`python -m torch_conformance pytorch`: PyTorch's tests in its own way, and a report.

There is no checkout of PyTorch here; the files of tests/pytorch stand for one.
"""

import json
import sys
import tomllib
from pathlib import Path

import pytest
import torch  # noqa: F401 (with its backends; the kit imports it without them)
from torch_conformance.__main__ import main
from torch_conformance.pytorch import files
from torch_conformance.pytorch.__main__ import parser, run_file, show, twin
from torch_conformance.pytorch.session import Session
from torch_conformance.settings import BadSettings, Settings

TESTS = Path(__file__).parent / "pytorch"
PROJECT = "conformance/pyproject.toml"


def run(path, folder, *options):
    """The status, and the report of each file by its name."""
    out = folder / "out.json"
    command = ["pytorch", "--tests", str(path), "--device", "openreg", *options]
    status = main([*command, "--json", str(out)])
    return status, {report["name"]: report for report in json.loads(out.read_text())}


@pytest.mark.slow
def test_a_crash_costs_one_test(tmp_path, capfd):
    status, reports = run(TESTS / "rogue.py", tmp_path)
    report = reports["rogue.py"]
    assert status == 1
    (test,) = report["bad"]
    assert "test_b_crashes" in test and report["bad"][test]["outcome"] == "crashed"
    assert "SIGABRT" in report["bad"][test]["text"]
    assert report["passed"] == 2 and report["as_cpu"] == 1
    assert "openreg: 2 tests pass, 1 fail." in capfd.readouterr().out


@pytest.mark.slow
def test_a_test_gets_a_new_process_after_a_broken_device(tmp_path):
    status, reports = run(TESTS, tmp_path, "--file", "device_generic.py")
    report = reports["device_generic.py"]
    assert status == 1 and report["as_cpu"] == 1 and report["passed"] >= 17
    names = sorted(test.split("::")[1] for test in report["bad"])
    assert names == ["test_first_openreg"]  # and the test after it has a new process


@pytest.mark.slow
def test_tests_can_be_sampled_and_excluded(tmp_path, capsys):
    file = tmp_path / "vendor.toml"
    file.write_text('[pytorch-exclusions]\n"*test_b_*" = "crashes"\n')
    options = ["--config", str(file), "--every", "3"]
    _, reports = run(TESTS / "rogue.py", tmp_path, *options)
    report = reports["rogue.py"]
    assert (report["passed"], report["bad"]) == (1, {})
    assert report["excluded"] == {"crashes": 1}
    assert "excluded: 1 test of rogue.py: crashes\n" in capsys.readouterr().out


def test_what_is_left_out_is_told_by_reason(monkeypatch, capsys):
    """The reasons of the kit, for all vendors, and of the vendor's file."""
    vendors = {"*test_slow*": "[slow] kernels"}  # not rich's markup
    tests = {
        "test_sort_and_select.py": ["test_stable_sort_against_numpy_x", "test_sort"],
        "test_nn.py": ["test_slow_a", "test_slow_b", "test_c"],
        "test_torch.py": ["test_slow_d", "test_e"],
    }
    monkeypatch.setattr(Session, "collect", lambda self: (tests[self.path.name], []))
    monkeypatch.setattr(
        Session, "run", lambda self, ids: dict.fromkeys(ids, ("passed", ""))
    )
    options = parser().parse_args(["--tests", "."])
    patterns = files.EXCLUDED_TESTS | vendors
    reports = [run_file(Path(n), Settings("mychip"), options, patterns) for n in tests]
    assert [report.passed for report in reports] == [1, 1, 1]
    show(reports)
    (kits,) = files.EXCLUDED_TESTS.values()
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first == "excluded: 3 tests of test_nn.py, test_torch.py: [slow] kernels"
    assert second == f"excluded: 1 test of test_sort_and_select.py: {kits}"


def test_a_missing_pytest_is_named_with_the_extra_that_has_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pytest", None)
    assert main(["pytorch", "--tests", str(TESTS), "--device", "openreg"]) == 2
    assert "pip install 'torch_conformance[pytorch]'" in capsys.readouterr().err
    project = tomllib.loads((TESTS.parent.parent / PROJECT).read_text())["project"]
    assert project["optional-dependencies"] == {"pytorch": ["pytest"]}


def test_a_file_that_cannot_be_collected_is_told_in_full(monkeypatch, capsys):
    def collect(self):
        raise BadSettings(f"{self.path.name} cannot be collected: status 2\nline 2")

    monkeypatch.setattr(Session, "collect", collect)
    options = parser().parse_args(["--tests", "."])
    show([run_file(Path("test_nn.py"), Settings("mychip"), options, {})])
    shown = capsys.readouterr().out
    assert "test_nn.py cannot be collected: status 2\nline 2\n" in shown


def test_a_device_that_is_not_there_is_refused_at_once(capsys):
    assert main(["pytorch", "--tests", str(TESTS), "--device", "nochip"]) == 2
    assert "start of device string: nochip" in capsys.readouterr().err


def test_the_cpus_twin_of_a_test():
    test = "TestGenericOPENREG::test_devices_openreg_float32"
    assert twin(test, "openreg") == "TestGenericCPU::test_devices_cpu_float32"
    test = "TestGenericPRIVATEUSE1::test_x_openreg"
    assert twin(test, "openreg") == "TestGenericCPU::test_x_cpu"


def test_files_that_are_not_for_any_device_are_left_out(tmp_path):
    generic = "instantiate_device_type_tests(X, globals())"
    for name in ("test_zeta.py", "test_view_ops.py", "test_cuda_more.py"):
        (tmp_path / name).write_text(generic)
    (tmp_path / "test_other.py").write_text("")
    found = [path.name for path in files.find(tmp_path)]
    assert found == ["test_view_ops.py", "test_zeta.py"]
    assert files.excluded("test_cuda_more.py", files.EXCLUDED) == "calls torch.cuda"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tests", "/nowhere"], "--tests /nowhere does not exist"),
        (["--tests", str(TESTS.parent / "kit")], "no device-generic test files"),
        (["--tests", str(TESTS), "--every", "0"], "--every 0 is not 1 or more"),
        (["--tests", str(TESTS), "--seconds", "0"], "--seconds 0 is not more than 0"),
        (["--tests", str(TESTS), "--json", "/nowhere/x"], "cannot write /nowhere/x"),
    ],
)
def test_a_wrong_command_is_refused_in_words(arguments, words, capsys):
    assert main(["pytorch", "--device", "openreg", *arguments]) == 2
    assert words in capsys.readouterr().err
