"""`python -m torch_conformance pytorch --tests PATH --device mychip`: see --help."""

import argparse
import collections
import dataclasses
import importlib.util
import json
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..runner import expect_loadable
from ..settings import BadSettings, check_files, make
from . import files
from .session import Session

SKIPPED = ("skipped", "expected")


@dataclasses.dataclass
class FileReport:
    """What became of the tests of one file."""

    name: str
    passed: int = 0
    skipped: int = 0
    as_cpu: int = 0  # fail on the CPU, too
    excluded: dict = dataclasses.field(default_factory=dict)  # reason -> tests
    bad: dict = dataclasses.field(default_factory=dict)  # id -> outcome and text
    problem: str = ""  # why the file did not run


def parser():
    """The options of the command."""
    options = argparse.ArgumentParser(
        prog="python -m torch_conformance pytorch",
        description="Runs PyTorch's device-generic tests on a device. A test that fails"
        " on the CPU, too, does not count. Needs torch_conformance[pytorch].",
        epilog="All tests take hours: begin with `--file test_view_ops.py`, or with a"
        " sample of all files, `--every 50`. The test files have to be those of the"
        " installed version of torch.",
    )
    add = options.add_argument
    add("--tests", type=Path, required=True, help="`test` of a checkout, or a file")
    add("--device", metavar="NAME", help="the device's name")
    add("--module", help="import this to load it; without, `import torch` does")
    add("--config", metavar="vendor.toml", help="what the chip does not do")
    add("--file", action="append", default=[], help="only this file, as test_nn.py")
    add("--every", type=int, default=1, metavar="N", help="each N-th test (1: all)")
    add("--seconds", type=float, default=120, help="a test that takes longer hangs")
    add("--json", metavar="out.json", type=Path, help="write the results")
    return options


def twin(test, device):
    """The CPU's name of a test of the device."""
    group, name = test.split("::")
    group = re.sub(f"({device}|PRIVATEUSE1)$", "CPU", group, flags=re.I)
    return f"{group}::{re.sub(f'_{device}(?=_|$)', '_cpu', name, count=1)}"


def run_file(path, settings, options, patterns):
    """The report of one file."""
    report = FileReport(path.name)
    session = Session(path, settings, options.seconds)
    try:
        tests, on_cpu = session.collect()
    except BadSettings as error:
        report.problem = str(error)
        return report
    reasons = {test: session.why_excluded(test, patterns) for test in tests}
    kept = [test for test, why in reasons.items() if why is None]
    counts = collections.Counter(why for why in reasons.values() if why is not None)
    report.excluded = dict(counts)
    results = session.run(kept[:: options.every])
    failed = {
        test: r for test, r in results.items() if r[0] not in ("passed", *SKIPPED)
    }
    report.passed = sum(outcome == "passed" for outcome, _ in results.values())
    report.skipped = sum(outcome in SKIPPED for outcome, _ in results.values())
    twins = {test: twin(test, settings.device) for test in failed}
    reference = session.run(sorted(set(twins.values()) & set(on_cpu)))
    for test, (outcome, text) in failed.items():
        if reference.get(twins[test], ("passed",))[0] in ("passed", "skipped"):
            report.bad[test] = {"outcome": outcome, "text": text}
        else:
            report.as_cpu += 1
    return report


def reasons(reports):
    """Why tests are excluded: a line for each reason, that of most tests first."""
    counts, places = collections.Counter(), collections.defaultdict(list)
    for report in reports:
        for why, count in report.excluded.items():
            counts[why] += count
            places[why].append(report.name)
    for why, count in counts.most_common():
        tests = "1 test" if count == 1 else f"{count} tests"
        yield f"excluded: {tests} of {', '.join(places[why])}: {why}"


def show(reports):
    """A row for each file, the reasons for what is left out, and the tests that
    failed."""
    console = Console()
    names = ("passed", "failed", "fails on the CPU", "skipped", "excluded", "")
    table = Table("file", *names)
    for report in reports:
        counts = (
            report.passed,
            len(report.bad),
            report.as_cpu,
            report.skipped,
            sum(report.excluded.values()),
        )
        state = "not run" if report.problem else ""
        table.add_row(report.name, *(str(n or "") for n in counts), state)
    console.print(table)
    for line in reasons(reports):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for report in reports:
        if report.problem:
            console.print(report.problem, markup=False, highlight=False)
        for test, found in report.bad.items():
            lines = found["text"].strip().splitlines() or [""]
            told = lines[-1] if found["outcome"] == "failed" else lines[0]
            line = f"{report.name}::{test} {found['outcome']}: {told}"
            console.print(line, markup=False, highlight=False)


def main(arguments):
    """The command: 0 if all tests hold, 1 if not, 2 if they cannot be run."""
    options = parser().parse_args(arguments)
    try:
        settings = make(options.device, options.module, options.config)
        patterns = files.EXCLUDED_TESTS | settings.exclusions
        if options.every < 1:
            raise BadSettings(f"--every {options.every} is not 1 or more")
        if options.seconds <= 0:
            raise BadSettings(f"--seconds {options.seconds:g} is not more than 0")
        check_files(options.json)
        if not importlib.util.find_spec("pytest"):
            raise BadSettings(
                "PyTorch's tests need pytest: pip install 'torch_conformance[pytorch]'"
            )
        if not options.tests.exists():
            raise BadSettings(f"--tests {options.tests} does not exist")
        found = files.find(options.tests.resolve(), options.file)
        if not found:
            raise BadSettings(f"{options.tests} has no device-generic test files")
        expect_loadable(settings)
    except BadSettings as error:
        print(f"torch_conformance: {error}", file=sys.stderr)
        return 2
    reports = []
    for number, path in enumerate(found, 1):
        print(f"[{number}/{len(found)}] {path.name}", file=sys.stderr)
        reports.append(run_file(path, settings, options, patterns))
        if options.json:  # after each file: all of them may take hours
            found_so_far = [dataclasses.asdict(report) for report in reports]
            options.json.write_text(json.dumps(found_so_far))
    show(reports)
    bad = sum(len(report.bad) + bool(report.problem) for report in reports)
    passed = sum(report.passed for report in reports)
    print(f"{settings.device}: {passed} tests pass, {bad} fail.")
    if bad:
        print("Next: run one alone, with --tests FILE, or exclude it in vendor.toml.")
    else:
        print("Next: more tests, with a smaller --every or without --file.")
    return 1 if bad else 0
