"""Runs one test file of PyTorch's in processes of its own: a crash or a hang costs one
test, and the tests after it run in a new process."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..settings import BadSettings
from .files import excluded
from .reporter import RECORD, SETTINGS, WANTED

PLUGIN = f"{__package__}.reporter"
START_SECONDS = 600  # for the import of a file and its tests, of which some have 30 000
# Neither the settings nor the plugins of a checkout, some of which are not installed.
FLAGS = ["-q", "-p", "no:cacheprovider", "-p", PLUGIN, "--noconftest", "--tb=short"]


def environment(settings, folder):
    """What PyTorch's test files want of the environment."""
    found = {**os.environ, **settings.environment, SETTINGS: settings.packed()}
    found["CI"] = ""  # else its runner wants a package for reports
    found.setdefault("PYTORCH_TEST_WITH_SLOW", "0")
    found.setdefault("PYTORCH_PRINT_REPRO_ON_FAILURE", "0")
    found["PYTHONPATH"] = os.pathsep.join([str(folder), found.get("PYTHONPATH", "")])
    if settings.module:
        found["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return found


class Session:
    """The tests of one file."""

    def __init__(self, path, settings, seconds=120.0):
        self.path = path
        self.settings = settings
        self.seconds = seconds
        self.variables = environment(settings, path.parent)

    def _pytest(self, arguments=(), wanted=None):
        """Runs pytest; gives (lines of the plugin, how it ended, what it printed)."""
        with tempfile.TemporaryDirectory() as folder:
            ini, record = Path(folder, "pytest.ini"), Path(folder, "record")
            ini.write_text("[pytest]\n")
            record.touch()
            output = Path(folder, "output")
            variables = {**self.variables, RECORD: str(record)}
            if wanted is not None:
                variables[WANTED] = str(Path(folder, "wanted"))
                Path(variables[WANTED]).write_text(json.dumps(wanted))
            command = [sys.executable, "-m", "pytest", "-c", ini, *FLAGS, *arguments]
            with output.open("w") as file:
                process = subprocess.Popen(
                    [*command, self.path.name],
                    cwd=self.path.parent,
                    env=variables,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            try:
                ending = self._watch(process, record, wanted is not None)
            finally:  # what a test started ends with it, and all after Ctrl-C
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            lines = [json.loads(line) for line in record.read_text().splitlines()]
            return lines, ending, output.read_text(errors="replace")[-3000:]

    def _watch(self, process, record, runs_tests):
        """Waits for the end, or until nothing was recorded for too long."""
        size, since = -1, time.monotonic()
        while True:
            try:
                code = process.wait(0.2)
                name = signal.Signals(-code).name if code < 0 else f"status {code}"
                return code, name
            except subprocess.TimeoutExpired:
                now = record.stat().st_size
                if now != size:
                    size, since = now, time.monotonic()
                started = runs_tests and size > 0
                limit = self.seconds if started else max(self.seconds, START_SECONDS)
                if time.monotonic() - since > limit:
                    return None, f"no progress in {limit:g} s"

    def collect(self):
        """The ids of the device's tests and of the CPU's, without the file's name."""
        lines, (code, name), printed = self._pytest(["--collect-only"])
        if code not in (0, 5) or not lines:
            raise BadSettings(
                f"{self.path.name} cannot be collected: {name}\n{printed}"
            )
        ids = [i for line in lines for i in line.get("collected", [])]
        suffix = f"({self.settings.device}|PRIVATEUSE1)::"
        device = [i for i in ids if re.search(suffix, i, re.I)]
        return device, [i for i in ids if re.search("CPU::", i)]

    def run(self, ids):
        """id -> (outcome, text) for each; "crashed" and "hung" are outcomes, too."""
        results, left = {}, list(ids)
        while left:
            lines, (code, ending), printed = self._pytest(wanted=left)
            began = None
            for line in lines:
                began = line.get("began", began)
                if "ended" in line:
                    results[line["ended"]] = (line["outcome"], line["text"])
            last = began or left[0]
            if code is None or code < 0 or not (set(results) & set(left)):
                outcome = "hung" if code is None else "crashed"
                results[last] = (outcome, f"{ending}\n{printed[-1200:]}")
            # What passed in set-up alone, or was not reached, is run again or dropped.
            before = len(left)
            left = [i for i in left if i not in results]
            if code in (0, 1) or len(left) == before:
                break
        return results

    def why_excluded(self, test, patterns):
        """The reason of the first pattern that excludes a test; None if none does."""
        return excluded(f"{self.path.name}::{test}", patterns)
