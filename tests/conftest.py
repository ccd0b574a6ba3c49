"""What the tests share: holding a stream, and a Python of one's own.

Nothing here imports torch before a test asks for it: some tests do without.
"""

import functools
import json
import os
import subprocess
import sys

import pytest
from gate import Gate, end, load_libopenreg


@pytest.fixture(autouse=True)
def threads_as_before():
    """A DataLoader's thread that pins memory sets the number for new threads to 1."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(torch.get_num_threads())


@pytest.fixture
def hold():
    """Makes gates: `gate = hold(stream)`; all are open when the test ends. A test
    that waits for a stream which it holds fails after a minute."""
    gates = []

    def make(stream):
        gates.append(Gate(stream))
        return gates[-1]

    yield make
    if gates:
        end(gates)


@pytest.fixture
def libopenreg():
    return load_libopenreg()


def start_python(code, folder, timeout=60, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,  # not where a folder of ours could pass for the package
        env={**os.environ, **variables},
        text=True,
        capture_output=True,
        timeout=timeout,
    )


@pytest.fixture
def run_python(tmp_path):
    """Runs code in a Python of its own and returns what it printed."""

    def run(code, check=True, **options):
        result = start_python(code, tmp_path, **options)
        if check:
            assert result.returncode == 0, result.stderr
            return result.stdout.strip()
        return result

    return run


# A child for each expression, which tells through a pipe what became of it. One
# that hangs is ended by the alarm, and one that dies has its signal told.
FORK = """
import json, os, signal, sys, torch
m = torch.openreg
{before}

def told(expression):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            text = str(eval(expression))
        except Exception as error:
            text = f"{{type(error).__name__}}: {{error}}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = b"".join(iter(lambda: os.read(read, 1 << 16), b"")).decode()
    os.close(read)
    status = os.waitpid(child, 0)[1]
    return text if status == 0 else f"status {{status}}: {{text}}"

print(json.dumps([told(expression) for expression in {expressions!r}]))
{after}
"""


@pytest.fixture(scope="session")
def fork_python(tmp_path_factory):
    """Has a Python run `before`, then forks a child of it for each expression,
    then runs `after`. Returns what the children make of the expressions: the text
    of the value or of the exception."""
    folder = tmp_path_factory.mktemp("fork")

    @functools.cache
    def run(expressions, before, after):
        code = FORK.format(expressions=expressions, before=before, after=after)
        result = start_python(code, folder, timeout=300)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return lambda expressions, before="", after="": run(
        tuple(expressions), before, after
    )


@pytest.fixture
def as_before():
    """Puts the current device and the current streams back."""
    import torch

    yield
    for index in reversed(range(torch.openreg.device_count())):
        torch.openreg.set_stream(torch.openreg.default_stream(index))
