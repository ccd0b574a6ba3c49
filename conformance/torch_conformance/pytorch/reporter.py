"""A pytest plugin: loads the backend, keeps the tests that are wanted, and writes each
one's begin and end to a file.

The runner reads the file while tests run: a test that began and never ended is the one
that crashed the process.
"""

import importlib
import json
import os

from ..settings import Settings

# Set by the runner: where to write, and what to load.
RECORD = "TORCH_CONFORMANCE_RECORD"
SETTINGS = "TORCH_CONFORMANCE_SETTINGS"
WANTED = "TORCH_CONFORMANCE_WANTED"  # a file: the ids to run, too many for arguments
UNUSABLE = 70  # status of a process whose device a test has broken


def write(**line):
    """A line, at once."""
    with open(os.environ[RECORD], "a") as file:
        file.write(json.dumps(line) + "\n")


def pytest_configure(config):
    """Before any test file is imported."""
    settings = Settings.unpacked(os.environ[SETTINGS])
    if settings.module:
        importlib.import_module(settings.module)


def short(nodeid):
    """The id of a test without the file's name."""
    return nodeid.split("::", 1)[1]


def pytest_collection_modifyitems(items):
    """Leaves the tests that are wanted."""
    if os.environ.get(WANTED):
        with open(os.environ[WANTED]) as file:
            wanted = set(json.load(file))
        items[:] = [item for item in items if short(item.nodeid) in wanted]


def pytest_collection_finish(session):
    """The ids of all tests that were selected."""
    write(collected=[short(item.nodeid) for item in session.items])


def pytest_runtest_logstart(nodeid, location):
    """A test begins."""
    write(began=short(nodeid))


def is_usable():
    """Whether the device still answers."""
    import torch

    name = Settings.unpacked(os.environ[SETTINGS]).device
    try:
        return torch.ones(1, device=name).cpu().item() == 1
    except Exception:
        return False


def pytest_runtest_logreport(report):
    """A test has a result; set-up and tear-down only if they fail."""
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome
        if hasattr(report, "wasxfail") and outcome != "failed":
            outcome = "expected"
        text = str(report.longrepr or "")[-600:]
        write(ended=short(report.nodeid), outcome=outcome, text=text)
        if outcome == "failed" and not is_usable():
            os._exit(UNUSABLE)  # the runner goes on in a new process
