"""torch_conformance: the command, what it writes, and workers that do not survive.

What the checks find is in tests/test_conformance_defects.py.
"""

import json
import os
import re
import select
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch  # with its backends; the kit imports it without them
from torch_conformance.__main__ import main
from torch_conformance.check import PARTS
from torch_conformance.checks import operators
from torch_conformance.levels import LEVELS, NUMBERS, checks, find
from torch_conformance.outcome import Result, Run, compare
from torch_conformance.report import badge, html, junit
from torch_conformance.runner import as_expected, selected
from torch_conformance.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "conformance"


@pytest.fixture
def run_kit(monkeypatch, capsys, tmp_path):
    """Runs the command in a folder; returns its status and what it showed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "kit"))

    def run(*arguments, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        status = main([*map(str, arguments)])
        shown = capsys.readouterr()
        return status, shown.out + shown.err

    return run


# --- the checks -----------------------------------------------------------------


def headings(page):
    """The anchors of a page."""
    found = re.findall(r"^#+ (.*)$", (ROOT / "docs" / page).read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in found}


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.id)
def test_each_check_says_what_it_proves_and_what_to_write(check):
    assert check.proves.endswith(".") and check.write.endswith(".") and check.call
    page, _, anchor = check.page.partition("#")
    assert (ROOT / "docs" / page).is_file()
    assert not anchor or anchor in headings(page)


def test_ids_are_unique_and_levels_count_up():
    ids = [check.id for check in checks()]
    assert len(ids) == len(set(ids))
    assert NUMBERS == tuple(range(1, len(LEVELS) + 1))
    assert all((ROOT / "docs" / level.page).is_file() for level in LEVELS)


def test_every_part_is_of_use():
    """A part that no check needs could not be declared absent."""
    needed = {part for check in checks() for part in check.needs}
    assert set(PARTS) - needed == {"float16", "bfloat16"}  # dtypes of many checks


def test_the_kit_knows_nothing_of_openreg():
    files = [p for p in KIT.rglob("*") if p.suffix in {".py", ".toml"}]
    assert len(files) > 20
    assert [p.name for p in files if re.search("openreg", p.read_text(), re.I)] == []


# --- levels ---------------------------------------------------------------------


def results_up_to(highest, **statuses):
    """All checks as passed, but for those that are named otherwise."""
    return [
        Result(check.id, statuses.get(check.id.replace(".", "_"), "passed"))
        for check in checks(highest)
    ]


def test_a_level_needs_all_below_it():
    run = Run("chip", results_up_to(6, guard_synchronizes="failed"))
    assert run.level == 1
    assert run.reached == [1, 3, 4, 5, 6]
    assert [result.id for result in run.bad] == ["guard.synchronizes"]


@pytest.mark.parametrize(
    ("status", "level"),
    [("absent", 6), ("expected", 6), ("unexpected", 1), ("crashed", 1), ("hung", 1)],
)
def test_what_counts_for_a_level(status, level):
    assert Run("chip", results_up_to(6, guard_synchronizes=status)).level == level


def test_a_level_that_is_absent_as_a_whole_is_not_reached_but_passed_over():
    results = results_up_to(6)
    for result in results:
        if result.level == 4:
            result.status = "absent"
    run = Run("chip", results)
    assert run.level == 6 and 4 not in run.reached


def test_a_level_that_was_not_run_ends_the_count():
    assert Run("chip", results_up_to(3)).level == 3
    assert Run("chip", []).level == 0


def test_expected_failures_must_still_fail():
    expected = {"guard.synchronizes": "the driver cannot"}
    failed = as_expected(Result("guard.synchronizes", "failed", "no"), expected)
    passed = as_expected(Result("guard.synchronizes", "passed"), expected)
    assert (failed.status, failed.message) == ("expected", "the driver cannot: no")
    assert passed.status == "unexpected" and "take it out" in passed.message


# --- what is written ------------------------------------------------------------


@pytest.fixture
def run():
    results = results_up_to(
        2, guard_synchronizes="failed", guard_contexts_nest="absent"
    )
    bad = next(result for result in results if result.status == "failed")
    bad.message = "it <hangs> \x1b[31mred"
    return Run("chip", results, {"kit": "0"}, ("devices",))


def test_a_run_survives_json(run):
    again = Run.unpacked(run.packed())
    assert again == run
    assert json.loads(run.packed())["level"] == 1


def test_a_comparison_names_what_changed(run):
    earlier = Run.unpacked(run.packed())
    earlier.results.pop(0)
    for result in earlier.results:
        if result.id == "guard.synchronizes":
            result.status = "passed"
        if result.id == "guard.sets_each_device":
            result.status = "hung"
    found = compare(run, earlier)
    assert found.worse == ["guard.synchronizes"]
    assert found.better == ["guard.sets_each_device"]
    assert found.new == ["naming.has_a_name"] and found.gone == []
    count = len(earlier.results)
    assert compare(run, run).lines() == []
    run.results.clear()
    (line,) = compare(run, earlier).lines()
    assert line.endswith(f", naming.leaves_other_names_alone, {count - 8} more")


def test_junit_has_a_case_for_each_check(run):
    root = ET.fromstring(junit.document(run, "docs"))
    cases = root.findall(".//testcase")
    assert len(cases) == len(run.results)
    (failure,) = root.findall(".//failure")
    assert failure.get("message") == "it <hangs> [31mred"
    assert find("guard.synchronizes").write in failure.text
    assert root[1].get("failures") == "1" and root[1].get("skipped") == "1"


def test_the_page_says_what_to_write(run):
    text = html.page(run, "https://guide")
    assert "Level 1: name and module: reached" in text
    assert "Level 2: guard: not reached" in text
    assert "it &lt;hangs&gt;" in text and "Level 3" not in text
    assert 'href="#2"' in text and 'href="https://guide/device.md"' in text
    assert "<code>synchronizeDevice()</code>" in text


def test_the_badge_tells_the_level(run):
    root = ET.fromstring(badge.image(run))
    title = root.find("{http://www.w3.org/2000/svg}title").text
    expected = f"level 1 of {NUMBERS[-1]}, without devices"
    assert title == f"torch conformance: chip: {expected}"


# --- workers --------------------------------------------------------------------

BROKEN = ["--device", "openreg", "--module", "broken"]


def test_a_crash_is_one_failed_check(run_kit, tmp_path):
    ids = ["guard.counts_as_the_module", "guard.synchronizes", "guard.sets_each_device"]
    only = [word for check_id in ids for word in ("--only", check_id)]
    status, shown = run_kit(*BROKEN, *only, "--json", "out.json", BROKEN="crash")
    assert status == 1, shown
    found = json.loads((tmp_path / "out.json").read_text())["results"]
    statuses = {result["id"]: result for result in found}
    assert [statuses[i]["status"] for i in ids] == ["passed", "crashed", "passed"]
    message = statuses["guard.synchronizes"]["message"]
    assert message.startswith("the process died of SIGABRT")
    assert "in synchronize" in message  # where it crashed
    assert "docs/device.md" in shown


def test_a_hang_is_one_failed_check(run_kit):
    only = ["--only", "guard.synchronizes", "--seconds", "1"]
    status, shown = run_kit(*BROKEN, *only, BROKEN="hang")
    assert status == 1
    assert "hung: no answer after 1 s" in shown
    assert "here it hangs" in shown and "in synchronize" in shown


@pytest.mark.slow
def test_what_ends_the_command_ends_a_check_that_hangs(tmp_path):
    os.mkfifo(tmp_path / "pid")
    command = [sys.executable, "-m", "torch_conformance", *BROKEN]
    variables = {
        **os.environ,
        "BROKEN": "hang",
        "BROKEN_PID": str(tmp_path / "pid"),
        "PYTHONPATH": str(ROOT / "tests" / "kit"),
    }
    process = subprocess.Popen(
        [*command, "--only", "guard.synchronizes"],
        env=variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker = os.pidfd_open(int((tmp_path / "pid").read_text()))
    process.terminate()
    assert "torch_conformance: interrupted" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert select.select([worker], [], [], 60)[0]  # it has ended
    os.close(worker)


def test_a_backend_that_cannot_be_loaded_is_reported(run_kit):
    status, shown = run_kit(*BROKEN, BROKEN="load")
    assert status == 2
    assert "cannot be loaded: RuntimeError: the driver is not installed" in shown


def test_a_folder_with_the_modules_name_is_reported(run_kit, tmp_path):
    (tmp_path / "torch_chip" / "torch_chip").mkdir(parents=True)
    status, shown = run_kit("--device", "chip", "--module", "torch_chip")
    assert status == 2
    assert f"torch_chip is the folder {tmp_path / 'torch_chip'} here, and not" in shown


@pytest.mark.slow
def test_an_unknown_device_is_reported(run_kit):
    status, shown = run_kit("--device", "nochip", "--level", "1")
    assert status == 2 and "nochip" in shown
    assert "--module names what to import" in shown


# --- openreg --------------------------------------------------------------------


def test_openreg_reaches_the_first_levels(run_kit, tmp_path):
    files = ["report.html", "junit.xml", "out.json", "badge.svg"]
    options = ["--report", "--junit", "--json", "--badge"]
    written = [word for pair in zip(options, files, strict=True) for word in pair]
    status, shown = run_kit("--device", "openreg", "--level", 4, *written)
    assert status == 0, shown
    assert f"openreg: level 4, {len(checks(4))} of {len(checks(4))}" in shown
    assert all((tmp_path / name).stat().st_size > 300 for name in files)
    assert selected(Settings("openreg"), 4) == [
        r["id"] for r in json.loads((tmp_path / "out.json").read_text())["results"]
    ]


@pytest.mark.slow
def test_openreg_reaches_every_level(run_kit):
    """Of the op database a sample; the next test has all of it."""
    options = ["--every", "25", "--samples", "2", "--jobs", "2"]
    status, shown = run_kit("--device", "openreg", *options)
    assert status == 0, shown
    assert f"openreg: level {NUMBERS[-1]}, " in shown


@pytest.mark.slow
@pytest.mark.parametrize("check", [c for c in checks() if c.cases], ids=lambda c: c.id)
def test_openreg_passes_with_the_whole_op_database(check, run_kit):
    count = len(check.cases())
    status, shown = run_kit("--device", "openreg", "--only", check.id)
    assert status == 0, shown
    assert f"{count} of {count} checks hold." in shown


DRAWS = {
    "randn": True,  # though the entry sets a seed
    "nn.functional.dropout": True,
    "nn.functional.scaled_dot_product_attention": True,  # with dropout
    "empty": True,
    "add": False,
    "nn.functional.gelu": False,
    "sort": False,
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_is_drawn_need_not_be_what_the_cpu_draws(name):
    op = operators.database()[name]
    found = [
        operators.is_random(op, sample)
        for sample in op.sample_inputs_func(op, "cpu", torch.float32, False)
    ]
    assert any(found) is DRAWS[name]


@pytest.mark.slow
def test_a_coarse_chip_reaches_its_level(run_kit, monkeypatch):
    """One device, no streams, no float64, tolerances of 1e-2."""
    config = ROOT / "tests" / "kit" / "coarse.toml"
    options = ["--config", config, "--level", 6]
    status, shown = run_kit(*options, PYTHONPATH=str(ROOT / "tests"))
    assert status == 0, shown
    assert "openreg: level 6, " in shown
    tight = ["--only", "autograd.runs_backward", "--device", "openreg"]
    monkeypatch.setenv("OPENREG_DEVICE_COUNT", "1")
    status, shown = run_kit(*tight, "--module", "kit.coarse")
    assert status == 1 and "differs from the CPU's" in shown  # it is coarse


@pytest.mark.slow
def test_the_command_runs_as_a_module(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "torch_conformance", "--list", "--level", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "  guard.synchronizes: Each device can be waited for" in result.stdout
    assert "level 3" not in result.stdout
