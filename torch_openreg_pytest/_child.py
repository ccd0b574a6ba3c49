"""A test in a process of its own, for what a running process cannot change."""

import json
import os
import subprocess
import sys
import tempfile

from _pytest.reports import TestReport

from ._settings import variables_of


class ChildReports:
    """In the child: writes the outcome of the test for the process that waits."""

    def __init__(self, config, path: str):
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report):
        data = self._config.hook.pytest_report_to_serializable(
            config=self._config, report=report
        )
        with open(self._path, "a") as file:
            file.write(json.dumps(data) + "\n")


def _command(item, path: str) -> list[str]:
    config = item.config
    command = [sys.executable, "-m", "pytest", item.nodeid, "--openreg"]
    command += [f"--rootdir={config.rootpath}", f"--openreg-child={path}", "-m", ""]
    command += ["-p", "no:cacheprovider"]
    if config.inipath:
        command += ["-c", str(config.inipath)]
    if config.pluginmanager.hasplugin("xdist"):
        command += ["-n", "0"]
    for option in ("openreg_schedules", "openreg_seed", "openreg_sanitize"):
        if (value := config.getoption(option)) is not None:
            command += [f"--{option.replace('_', '-')}={value}"]
    if config.getoption("openreg_allow_leaks"):
        command += ["--openreg-allow-leaks"]
    return command


def run_in_child(item, settings: dict) -> list[TestReport]:
    """The reports of an item's phases, from a process with the wanted devices."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    environment.update(variables_of(settings))
    with tempfile.TemporaryDirectory(prefix="openreg_test_") as folder:
        path = os.path.join(folder, "reports")
        done = subprocess.run(
            _command(item, path),
            cwd=item.config.rootpath,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        lines = []
        if os.path.exists(path):
            with open(path) as file:
                lines = file.read().splitlines()
    reports = [
        item.config.hook.pytest_report_from_serializable(
            config=item.config, data=json.loads(line)
        )
        for line in lines
    ]
    if not reports or reports[-1].when != "teardown":
        reports.append(_died(item, done))
    return reports


def _died(item, done) -> TestReport:
    return TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr=f"the process of this test ended with status {done.returncode} before "
        f"it could tell what became of it:\n{done.stdout[-4000:]}",
        when="call",
    )
