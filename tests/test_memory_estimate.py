"""How much memory a program would take: python -m torch_openreg.memory estimate."""

import subprocess
import sys

import pytest
import torch
from torch_openreg import memory
from torch_openreg.memory import __main__ as command

MIB = 1 << 20


# --- estimate, in a program ---------------------------------------------------------


def buffer(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="openreg")


def test_phases_have_the_peaks_that_one_would_measure_by_hand():
    net = torch.nn.Linear(512, 512, device="openreg")
    optimizer = torch.optim.SGD(net.parameters(), momentum=0.9)
    x = torch.ones(64, 512, device="openreg")
    loss = None

    def forward():
        nonlocal loss
        loss = net(x)

    def other():
        nonlocal loss
        loss = (loss * buffer(3)[: 64 * 512].view(64, 512)).sum()

    work = {
        "forward": forward,
        "other": other,
        "backward": lambda: loss.backward(),
        "optimizer step": optimizer.step,
    }
    for _ in range(3):  # at first there is more to allocate
        by_hand = {}
        for phase, run in work.items():
            torch.openreg.reset_peak_memory_stats()
            run()
            by_hand[phase] = torch.openreg.max_memory_allocated()
    with memory.estimate() as figures:
        for run in work.values():
            run()
    phases = figures.devices[0].phases
    assert {phase: peak.allocated for phase, peak in phases.items()} == by_hand
    assert figures.fits


def test_the_program_sees_its_own_peaks():
    most = [torch.openreg.max_memory_allocated, torch.accelerator.max_memory_allocated]
    with memory.estimate() as figures:
        torch.openreg.reset_peak_memory_stats()
        before = torch.openreg.memory_allocated()
        buffer(64)
        torch.nn.ReLU()(buffer(1))
        assert [read() for read in most] == [before + 64 * MIB] * 2
        buffer(96)
        torch.accelerator.reset_peak_memory_stats()
        assert [read() for read in most] == [before] * 2
    assert figures.devices[0].phases["other"].allocated == before + 96 * MIB


def test_what_a_backward_pass_computes_again_belongs_to_it():
    class Growing(torch.nn.ReLU):
        size = 0

        def forward(self, x):
            self.size += 40
            buffer(self.size)
            return super().forward(x)

    x = torch.ones(4, device="openreg", requires_grad=True)
    before = torch.openreg.memory_allocated()
    with memory.estimate() as figures:
        y = torch.utils.checkpoint.checkpoint(Growing(), x, use_reentrant=False)
        y.sum().backward()
    phases = figures.devices[0].phases
    assert 40 * MIB <= phases["forward"].allocated - before < 80 * MIB
    assert phases["backward"].allocated - before >= 80 * MIB


def test_a_failed_step_ends_when_the_next_begins():
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("no step")

    weight = torch.nn.Parameter(torch.ones(4, device="openreg"))
    optimizer = Failing([weight])
    with memory.estimate() as figures:
        for _ in range(2):
            with pytest.raises(ValueError, match="no step"):
                optimizer.step()
        Failing.step = torch.optim.SGD.step
        optimizer.step()
        buffer(40)
    phases = figures.devices[0].phases
    assert phases["other"].allocated - phases["optimizer step"].allocated >= 39 * MIB


@pytest.mark.parametrize("entries", [120_000, 64])
def test_the_largest_tensors_are_those_of_the_peak(monkeypatch, entries):
    # With few entries the history is read many times.
    monkeypatch.setattr(memory._estimate, "ENTRIES", entries)
    net = torch.nn.ReLU()

    def work():
        for _ in range(40):
            net(buffer(1))

    with memory.estimate() as figures:
        kept = buffer(300)
        work()
        peak = buffer(200)
        del kept, peak
        work()
        buffer(400)
    line = sys._getframe().f_code.co_firstlineno + 11
    first, second = figures.devices[0].largest[:2]
    assert (first.size, first.phase) == (300 * MIB, "other")
    assert first.place == first.stack[0]
    assert first.place.endswith(" buffer")
    called = [tensor.stack[1].split()[0] for tensor in (first, second)]
    assert called == [f"{__file__}:{line}", f"{__file__}:{line + 2}"]


# --- estimate, the command ----------------------------------------------------------


@pytest.fixture
def run_script(tmp_path, monkeypatch):
    def run(code):
        path = tmp_path / "script.py"
        path.write_text(f"import sys, torch\n{code}\n")
        monkeypatch.setattr(sys, "argv", sys.argv)
        monkeypatch.setattr(sys, "path", [*sys.path])
        return command.main(["estimate", str(path)])

    return run


TOO_MUCH = 'torch.empty(1 << 50, device="openreg")'


def test_a_script_without_memory_to_go_on_does_not_fit(run_script, capsys):
    assert run_script(f"{TOO_MUCH}\nprint('unreached')") == 1
    told = capsys.readouterr().out
    assert "\ndoes not fit: OpenReg out of memory. Tried to allocate" in told
    assert "script.py:2 <module>" in told
    assert "unreached" not in told


def test_a_script_that_gives_up_does_not_fit_either(run_script, capsys):
    code = f"try: {TOO_MUCH}\nexcept torch.OutOfMemoryError: sys.exit(3)"
    assert run_script(code) == 3
    told = capsys.readouterr().out
    assert "does not fit: 1 failed allocations, and exit with 3" in told


def test_other_errors_of_a_script_pass_through(run_script, capsys):
    with pytest.raises(ZeroDivisionError):
        run_script("1 / 0")
    assert "fit" not in capsys.readouterr().out


def test_a_script_that_uses_no_device_gets_a_message(run_script, capsys):
    assert run_script("sys.exit()") is None
    told = capsys.readouterr().out
    assert "No memory of an openreg device was used" in told


def test_a_command_needs_a_script(tmp_path, capsys):
    assert command.main(["estimate", str(tmp_path / "none.py")]) == 2
    assert "there is no script" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        command.main(["estimate", "--memory", "1GiB"])


SCRIPT = """
import sys, torch, beside
print(sys.argv[1:], __name__, torch.openreg.device_count())
try:
    torch.empty(90 << 20, dtype=torch.uint8, device="openreg:2")
except torch.OutOfMemoryError:
    torch.empty(30 << 20, dtype=torch.uint8, device="openreg:2")
"""


def start(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "torch_openreg.memory", "estimate", *arguments],
        **{"cwd": folder, "text": True, "capture_output": True, "timeout": 60},
    )


def test_options_choose_the_device_and_the_rest_is_the_scripts(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "script.py").write_text(SCRIPT)
    (tmp_path / "folder" / "beside.py").write_text("")
    ended = start(
        tmp_path,
        *("--profile", "l4", "folder/script.py", "--epochs", "3", "--memory=64MiB"),
        *("--devices", "3", "--", "--memory"),
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0] == "['--epochs', '3', '--memory'] __main__ 3"
    assert "openreg:2, NVIDIA L4, 64.00 MiB" in lines
    assert lines[-1] == (
        "fits: openreg:2 reserved 30.00 MiB of 64.00 MiB at most, "
        "after 1 failed allocations"
    )


def test_a_profile_that_does_not_exist_is_refused(tmp_path):
    (tmp_path / "script.py").write_text("print('unreached')")
    ended = start(tmp_path, "script.py", "--profile", "abacus")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "OPENREG_DEVICE_PROFILE='abacus' is not accepted" in ended.stderr
