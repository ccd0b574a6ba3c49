"""What the tests share: holding a stream, and a Python of one's own.

Nothing here imports torch before a test asks for it: some tests do without.
"""

import functools
import gc
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import tally
from gate import Gate, end, load_libopenreg
from ranks import run_ranks
from warm_python import Servers

ROOT = Path(__file__).parent.parent

# Workers, programs and device processes share the cores: a thread of OpenMP that has
# nothing to do must not keep one busy. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# What torch.compile compiles is compiled once per run, and by no other run. Workers
# inherit the variable.
COMPILED = os.path.join(tempfile.gettempdir(), f"openreg_compiled_{os.getpid()}")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", COMPILED)

# --- workers ------------------------------------------------------------------


# A worker that has finished takes the next file: short ones come last.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    if os.environ.get("OPENREG_EXECUTOR") == "process":
        for item in items:
            if mark := item.get_closest_marker("in_threads"):
                item.add_marker(pytest.mark.skip(reason=mark.args[0]))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda i: (i.path not in slow, "conformance" in i.path.parts))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        """Keeps a file together, since its fixtures may be costly. Those of
        conformance have none, but thousands of tests."""

        def _split_scope(self, nodeid):
            if "conformance" in nodeid:
                return nodeid.split("[")[0]
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    tally.add(getattr(node, "workeroutput", {}).get("tally", []))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tally"] = tally.pack()
    shutil.rmtree(COMPILED, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    """Prints what passed, so that it can be read off."""
    if tally.TALLY:
        schedule = os.environ.get("OPENREG_SCHEDULE", "auto")
        terminalreporter.section(f"conformance, schedule {schedule}")
        for line in tally.lines():
            terminalreporter.write_line(line)


# --- garbage ------------------------------------------------------------------


def pytest_collection_finish():
    gc.freeze()  # modules and tests stay: there is less to look through


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """What a test leaves in cycles is collected between tests, so that no other one,
    which compares figures, has it freed meanwhile; all of it with the file."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        if nextitem is None or nextitem.path != item.path:
            gc.collect()


# --- fixtures -----------------------------------------------------------------


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


@pytest.fixture(scope="session")
def start_python():
    """Runs code in a Python of its own, as subprocess.run() does."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture
def run_python(start_python, tmp_path):
    """Runs code in a Python of its own and returns what it printed."""

    def run(code, check=True, **options):
        # Not where a folder of ours could pass for the package.
        result = start_python(code, tmp_path, **options)
        if check:
            assert result.returncode == 0, result.stderr
            return result.stdout.strip()
        return result

    return run


@pytest.fixture
def run_cuda(run_python):
    """Runs code in a Python whose CUDA is the device; returns what it printed."""

    def run(code, **options):
        variables = {"OPENREG_AS": "cuda", "OPENREG_QUIET": "1", **options}
        return run_python("import torch\n" + code, **variables)

    return run


@pytest.fixture(scope="session")
def run_script(start_python):
    """Runs a script as `python script arguments` does, or as `python -m` a module."""

    def run(script, *arguments, folder=ROOT, **options):
        argv = [*map(str, (script, *arguments))]
        name, code = argv[0], f"import runpy, sys\nsys.argv = {argv!r}\n"
        if name.endswith(".py"):
            code += f"sys.path[0] = {os.path.dirname(name)!r}\n"
            code += f"runpy.run_path({name!r}, run_name='__main__')"
        else:
            code += f"runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
        return start_python(code, folder, **options)

    return run


@pytest.fixture
def ranks(start_python, tmp_path):
    """Runs the body of a function in each of several ranks (tests/ranks.py)."""
    return lambda body, size=2, **options: run_ranks(
        start_python, tmp_path, body, size, **options
    )


@pytest.fixture
def run_tests(start_python):
    """Runs tests in a Python of their own, whose variables differ from ours:
    `run_tests(__file__, OPENREG_SCHEDULE="async")`."""

    def run(*arguments, **options):
        command = [*map(str, arguments)]
        code = f"import pytest, sys; sys.exit(pytest.main({command!r}))"
        result = start_python(code, ROOT, **{"timeout": 300, **options})
        assert result.returncode == 0, result.stdout[-5000:]
        return result.stdout

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
        signal.alarm(300)
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
def fork_python(start_python, tmp_path_factory):
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
