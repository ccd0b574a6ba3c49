"""`python -m torch_openreg.launch`: one rank per device, on this machine."""

import json
import sys

import pytest
import torch
from torch_openreg.launch import _rank
from torch_openreg.launch import __main__ as command

SCRIPT = """
import json, os, sys
import torch

x = torch.ones(3, device="openreg")
with open(f"{sys.argv[1]}/{os.environ['RANK']}", "w") as file:
    told = [sys.argv, __name__, sys.path[0], torch.openreg.device_count()]
    json.dump([*told, x.device.index, os.environ["OMP_NUM_THREADS"]], file)
"""


@pytest.fixture
def launched(monkeypatch):
    """What torchrun is asked for, without its being run."""
    asked = []
    monkeypatch.setattr(command.run, "run", asked.append)
    for name in ("OPENREG_DEVICE_COUNT", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "x")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    return asked


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def start(start_python, folder, *arguments, **options):
    code = f"""
import runpy, sys
sys.argv = ["launch", *{[*map(str, arguments)]!r}]
runpy.run_module("torch_openreg.launch", run_name="__main__", alter_sys=True)
"""
    return start_python(code, folder, **options)


@pytest.mark.parametrize(
    "module",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["script", "module"],
)
def test_each_rank_has_its_device_and_the_arguments(
    start_python, tmp_path, script, module
):
    what = ["-m", "script"] if module else [script]
    done = start(start_python, tmp_path, "--devices", 2, *what, tmp_path, "--devices=9")
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        told = json.loads((tmp_path / str(rank)).read_text())
        arguments, name, path, devices, device, threads = told
        assert arguments[1:] == [str(tmp_path), "--devices=9"]
        assert arguments[0].endswith("script.py")
        assert (name, path, devices, device) == ("__main__", str(tmp_path), 2, rank)
        assert int(threads) >= 1


def test_a_rank_that_fails_is_named_and_ends_the_others(start_python, tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(
        "import os, time\n"
        "if os.environ['RANK'] == '0': raise SystemExit(7)\n"
        "time.sleep(600)\n"
    )
    done = start(start_python, tmp_path, "--devices", 2, script)
    assert done.returncode == 1
    assert "Root Cause" in done.stderr and "exitcode  : 7" in done.stderr
    assert "rank      : 0" in done.stderr


RESTARTED = """
import os, signal, torch
import torch.distributed as dist

dist.init_process_group()
x = torch.ones(3, device="openreg")
dist.all_reduce(x)
torch.openreg.synchronize()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(x)
print("sum", x[0].item(), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_are_started_again_after_a_death(start_python, tmp_path):
    script = tmp_path / "restarted.py"
    script.write_text(RESTARTED)
    options = "--devices", 2, "--max-restarts", 1
    for _ in range(3):  # addresses of the first ranks may be met, or not
        done = start(start_python, tmp_path, *options, script, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["sum", "4.0"] * 2


def test_options_of_torchrun_go_to_torchrun(launched, script):
    command.main(["--max-restarts", "3", "--devices=2", "--tee=3", str(script), "-x"])
    (options,) = launched
    assert (options.max_restarts, options.tee) == (3, "3")
    assert options.nproc_per_node == "2"
    assert options.training_script_args == [str(script), "-x"]


def test_a_program_that_is_not_python_is_started_as_it_is(launched):
    command.main(["--devices=2", "--no-python", "env", "-x"])
    (options,) = launched
    assert (options.training_script, options.training_script_args) == ("env", ["-x"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--devices=2"], "training_script"),
        (["--devices=2", "nowhere.py"], "there is no script nowhere.py"),
        (["--devices=two", "x.py"], "invalid int value: 'two'"),
        (["--devices=2", "--nproc-per-node=4", "x.py"], "use --devices instead"),
        (["--devices=2", "--run-path", "x.py"], "--run-path is left out"),
        (["--virtual-local-rank", "x.py"], "--virtual-local-rank is left out"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    launched, capsys, arguments, message
):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not launched


@pytest.mark.parametrize(
    "count, visible, message",
    [
        ("0", None, "no device is visible"),
        ("-1", None, "it must be a number in [0,"),
        ("1000", None, "it must be a number in [0,"),
        ("3", "0,2", "--devices is 3, but 2 of them can be seen"),
    ],
)
def test_devices_that_cannot_be_had_are_refused(
    start_python, tmp_path, script, count, visible, message
):
    variables = {} if visible is None else {"OPENREG_VISIBLE_DEVICES": visible}
    done = start(start_python, tmp_path, "--devices", count, script, **variables)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]


def test_without_devices_there_is_a_rank_for_each_that_is_seen(launched, script):
    command.main([str(script)])
    (options,) = launched
    assert options.nproc_per_node == str(torch.openreg.device_count())


def test_a_script_runs_as_python_would_run_it(tmp_path, monkeypatch):
    path = tmp_path / "told.py"
    path.write_text("import sys\nsys.told = (__name__, sys.argv, sys.path[0])\n")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    _rank.main([str(path), "-a"])
    told = vars(sys).pop("told")
    assert told == ("__main__", [str(path), "-a"], str(tmp_path))
