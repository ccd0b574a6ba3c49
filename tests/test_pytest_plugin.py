"""The pytest plugin, on suites in a folder of their own."""

import pytest
import torch

# pytester forgets what is imported while it runs; torch cannot be imported twice.
import torch.distributed
import torch.utils._pytree

assert torch.openreg.device_count() > 0

pytest_plugins = ["pytester"]
in_one_process = pytest.mark.in_threads(
    "the sanitizer refuses device processes, and races do not show there"
)


@pytest.fixture
def run(pytester):
    """Runs a test file under the plugin, in this process; returns its result."""

    def run_file(code, *options, ini=""):
        pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
        pytester.makepyfile("import pytest, torch\n" + code)
        return pytester.runpytest_inprocess("--openreg", "-p", "no:xdist", *options)

    return run_file


LEAK = """
kept = []

def test_that_keeps_a_tensor():
    kept.append(torch.ones(1000, device="openreg"))

def test_that_keeps_nothing():
    torch.ones(1000, device="openreg")
"""


def test_a_leak_is_an_error_of_its_test(run):
    result = run(LEAK, "-v")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*4096 bytes of device memory are left after*"])
    run(LEAK, "--openreg-allow-leaks").assert_outcomes(passed=2)


def test_without_the_option_the_plugin_does_nothing(run, pytester):
    pytester.makepyfile("import torch\n" + LEAK)
    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(passed=2)


def test_memory_of_longer_lived_fixtures_is_not_a_leak(run):
    run(
        """
@pytest.fixture(scope="module")
def model():
    return torch.ones(1000, device="openreg")

@pytest.fixture
def batch():
    return []

def test_first(model, batch):
    batch.append(model + 1)

def test_second(model, batch):
    batch.append(model + 1)
"""
    ).assert_outcomes(passed=2)


def test_a_test_that_fails_is_not_blamed_for_a_leak_too(run):
    run(
        """
def test_fails():
    x = torch.ones(1000, device="openreg")
    assert x.sum() == 0

def test_passes():
    pass
"""
    ).assert_outcomes(failed=1, passed=1)


def test_every_test_runs_under_every_schedule(run):
    result = run(
        """
from torch_openreg import _C

seen = []

def test_any(openreg_device):
    seen.append(_C._getSchedule())

@pytest.mark.openreg(schedule="async")
def test_one():
    seen.append(_C._getSchedule())

def test_all_were_there(openreg_schedule):
    if openreg_schedule == "adversarial":
        assert seen == [(0, 3), (2, 3), (1, 3)]
""",
        "--openreg-schedules=auto,adversarial",
        "--openreg-seed=3",
        "-v",
    )
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*test_any?adversarial?*"])


@in_one_process
def test_an_adversarial_schedule_shows_a_race(run):
    code = """
def test_racy():
    x = torch.zeros(4, device="openreg")
    side = torch.openreg.Stream()
    torch.openreg.synchronize()
    x.add_(1)
    with torch.openreg.stream(side):
        y = x.clone()
    side.synchronize()
    assert y.tolist() == [1] * 4
"""
    run(code).assert_outcomes(passed=1)
    result = run(code, "--openreg-schedules=auto,adversarial")
    result.assert_outcomes(passed=1, failed=1)


RACE = """
def test_racy():
    x = torch.ones(4, device="openreg")
    side = torch.openreg.Stream()
    with torch.openreg.stream(side):
        y = x + 1
    torch.openreg.synchronize()

def test_right():
    x = torch.ones(4, device="openreg")
    assert (x + 1).tolist() == [2] * 4
"""


@in_one_process
def test_what_the_sanitizer_finds_fails_the_test_with_both_stacks(run):
    run(RACE).assert_outcomes(passed=2)
    result = run(RACE, "--openreg-sanitize=all")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*SanitizerError: openreg sanitizer: race: aten::add reads*",
            "*x = torch.ones(4, device=*",
            "*y = x + 1*",
            "*wait_stream*",
        ]
    )
    assert torch.openreg.sanitizer.enabled_checks() == ()


@in_one_process
def test_what_a_test_leaves_is_a_failure_of_the_sanitizer(run):
    result = run(LEAK, "--openreg-sanitize=leak", "--openreg-allow-leaks")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*4000 bytes of device memory made here is left*"])


def test_a_fault_plan_is_in_force_in_the_test_only(run):
    run(
        """
@pytest.mark.openreg(faults="oom@alloc:2")
def test_runs_out():
    torch.empty(4, device="openreg")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(4, device="openreg")

@pytest.mark.openreg(faults="error@op:aten::add:1")
def test_breaks_the_device():
    x = torch.ones(4, device="openreg")
    with pytest.raises(torch.AcceleratorError):
        (x + x).cpu()

def test_works_again():
    assert (torch.ones(4, device="openreg") + 1).tolist() == [2] * 4
"""
    ).assert_outcomes(passed=3)


def test_devices_of_another_kind_are_those_of_a_child(run):
    result = run(
        """
import os

@pytest.mark.openreg(memory="64MiB", devices=3, profile="h100")
class TestSmall:
    def test_there_are_three(self, openreg_devices, tmp_path):
        assert len(openreg_devices) == 3
        assert torch.openreg.mem_get_info(2)[1] == 64 << 20
        assert "H100" in torch.openreg.get_device_name()

    @pytest.mark.openreg(devices=1)
    def test_fails(self, openreg_devices):
        assert len(openreg_devices) == 3

@pytest.mark.openreg(devices=1)
def test_dies():
    os._exit(3)
""",
        "-v",
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["*assert 1 == 3*", "*ended with status 3 before*", "*collected 1 item*"]
    )


def test_a_peak_of_memory_and_waits_of_the_host_are_asserted(run):
    run(
        """
from torch_openreg_pytest import assert_peak_below, no_sync

def test_peak():
    with assert_peak_below("1MiB"):
        torch.ones(1000, device="openreg")
    with pytest.raises(AssertionError, match="not less than 0.5MiB"):
        with assert_peak_below("0.5MiB"):
            torch.ones(1 << 18, device="openreg")
    with pytest.raises(ValueError, match="such as '1.2GiB', but got 'much'"):
        with assert_peak_below("much"):
            pass

def test_waits():
    x = torch.ones(4, device="openreg")
    with no_sync():
        y = x + x
    with pytest.raises(RuntimeError, match="synchroniz"):
        with no_sync():
            y.sum().item()
    with pytest.raises(RuntimeError, match="synchroniz"):
        with no_sync():
            y[y > 1]
    assert y.sum().item() == 8
"""
    ).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "marker, message",
    [
        ("'2GiB'", "takes keywords"),
        ("memmory='2GiB'", "has no 'memmory', but"),
        ("schedule='x'", "auto, async, adversarial, but got 'x'"),
    ],
)
def test_a_wrong_marker_is_refused(run, marker, message):
    result = run(f"@pytest.mark.openreg({marker})\ndef test(): pass\n")
    result.stderr.fnmatch_lines([f"*{message}*"])
    assert result.ret != 0


def test_a_wrong_schedule_is_refused(run):
    result = run("def test(): pass", "--openreg-schedules=auto,quick")
    result.stderr.fnmatch_lines(["*--openreg-schedules: expected*but got 'quick'*"])


@pytest.mark.slow
@pytest.mark.parametrize("name, workers", [("openreg", "2"), ("cuda", "0")])
def test_a_suite_runs_under_xdist_and_for_cuda(pytester, monkeypatch, name, workers):
    pytest.importorskip("xdist")
    monkeypatch.setenv("OPENREG_AS", name)
    monkeypatch.setenv("OPENREG_QUIET", "1")
    pytester.makepyfile(
        f"""
        import pytest, torch

        @pytest.mark.openreg(devices=1)
        def test_child(openreg_devices):
            assert [str(d) for d in openreg_devices] == ["{name}:0"]

        @pytest.mark.openreg(faults="oom@alloc:1")
        def test_fault():
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(4, device="{name}")

        kept = []

        def test_leak(openreg_device):
            kept.append(torch.ones(4, device=openreg_device))
        """
    )
    result = pytester.runpytest_subprocess(
        "--openreg", "-n", workers, "--openreg-schedules=adversarial"
    )
    result.assert_outcomes(passed=3, errors=1)


MODEL = """
import torch


def prefetch(batches, device):
    side = torch.{name}.Stream()
    for batch in batches:
        with torch.{name}.stream(side):
            upcoming = batch.to(device, non_blocking=True)
        {wait}
        yield upcoming


def total(batches, device):
    return sum(batch.sum() for batch in prefetch(batches, device))
"""

SUITE = """
import torch
from training.loader import total


def test_total():
    batches = [torch.ones(64).pin_memory() for _ in range(3)]
    assert total(batches, "{name}").item() == 192
"""


# As docs/pytest_plugin.md tells a new user: a repository without a word about us.
@in_one_process
@pytest.mark.parametrize(
    "name", ["openreg", pytest.param("cuda", marks=pytest.mark.slow)]
)
def test_a_repository_of_its_own_needs_no_configuration(tmp_path, start_python, name):
    def run(wait, *options):
        loader.write_text(MODEL.format(name=name, wait=wait))
        command = ["-q", "-p", "no:cacheprovider", "--openreg", *options]
        code = f"import pytest, sys; sys.exit(pytest.main({command!r}))"
        return start_python(code, tmp_path, OPENREG_AS=name, OPENREG_QUIET="1")

    (tmp_path / "training").mkdir()
    (tmp_path / "tests").mkdir()
    loader = tmp_path / "training" / "loader.py"
    suite = tmp_path / "tests" / "test_loader.py"
    suite.write_text(SUITE.format(name=name))
    ini = '[tool.pytest.ini_options]\npythonpath = ["."]\n'
    (tmp_path / "pyproject.toml").write_text(ini)

    wrong = run("pass", "--openreg-sanitize=race")
    assert wrong.returncode == 1
    assert f'{loader}", line 9, in prefetch' in wrong.stdout
    right = f"""torch.{name}.current_stream().wait_stream(side)
        upcoming.record_stream(torch.{name}.current_stream())"""
    fixed = run(right, "--openreg-sanitize=all", "--openreg-schedules=auto,adversarial")
    assert (fixed.returncode, "2 passed" in fixed.stdout) == (0, True), fixed.stdout
