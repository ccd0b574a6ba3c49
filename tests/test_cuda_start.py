"""How a program comes to see CUDA where there is the device: each way to start, what
reaches its children, and what is refused."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def start(tmp_path):
    """Starts Python itself, with arguments."""

    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            text=True,
            capture_output=True,
        )

    return run


def printed(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


# --- ways to start ------------------------------------------------------------


def test_the_command_runs_a_program_with_its_arguments(start, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch\nprint(sys.argv[1:], __name__, torch.cuda.device_count())"
    )
    arguments = "--devices", "3", str(program), "-m", "--quiet"
    result = start("-m", "torch_openreg.cuda", *arguments)
    assert result.stdout == "['-m', '--quiet'] __main__ 3\n"
    (line,) = result.stderr.splitlines()
    assert "CUDA is software" in line and "OPENREG_QUIET=1" in line


def test_children_are_quiet_and_have_the_device_too(start):
    child = "import torch; print(torch.ones(2, device='cuda').is_cuda)"
    code = (
        "import torch, subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    result = start("-m", "torch_openreg.cuda", "-c", code)
    assert result.stdout == "True\n"
    assert len(result.stderr.splitlines()) == 1


def test_a_cuda_script_is_estimated_in_cudas_place(start, tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch\nx = torch.ones(1 << 20, device='cuda')\n(x * 2).sum().item()"
    )
    command = "torch_openreg.memory", "estimate", "program.py", "--profile", "l4"
    told = printed(start("-m", *command, OPENREG_AS="cuda"))
    assert "cuda:0, NVIDIA L4, " in told
    assert "fits: cuda:0 reserved 22.00 MiB of " in told


def test_a_package_that_torch_loads_can_be_run_as_a_command(start):
    """`python -m` looks for it before it imports it, and torch's import loads it."""
    command = "torch_openreg.distributed", "--help"
    told = [printed(start("-m", *command, OPENREG_AS=name)) for name in ("cuda", "")]
    assert "estimate" in told[0] == told[1]


def test_enable_comes_before_torch(start):
    code = (
        "import torch_openreg.cuda; torch_openreg.cuda.enable(); import torch\n"
        "print(torch.cuda.is_available(), hasattr(torch, 'openreg'))"
    )
    assert start("-c", code, OPENREG_QUIET="1").stdout == "True False\n"


# A cell is compiled and run by itself, as a notebook's kernel does it.
NOTEBOOK = """
import code
cells = [
    "import torch_openreg.cuda; torch_openreg.cuda.enable()",
    "import torch",
    "x = torch.ones(2, device='cuda')",
    "print(x.is_cuda, x.sum().item())",
]
kernel = code.InteractiveInterpreter()
for cell in cells:
    assert not kernel.runsource(cell)
"""


def test_a_notebook_enables_it_in_its_first_cell(start):
    assert printed(start("-c", NOTEBOOK, OPENREG_QUIET="1")) == "True 2.0\n"


def test_a_session_of_pytest_has_it_from_its_environment(start, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import torch\n"
        "def test_it():\n"
        "    assert torch.cuda.is_available()\n"
        "    assert (torch.ones(3).cuda() * 2).sum().item() == 6\n"
    )
    result = start("-m", "pytest", "-q", "-p", "no:xdist", OPENREG_AS="cuda")
    assert "1 passed" in printed(result)


RANK = """
import os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
x = torch.full((2,), rank + 1.0, device="cuda")
dist.all_reduce(x)
line = f"{dist.get_backend()} {x.device} {x.tolist()}\\n"
os.write(1, line.encode())  # at once: both ranks write to one pipe
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "prefix", [("-m", "torch_openreg.cuda"), ()], ids=["command", "environment"]
)
def test_torchrun_starts_ranks_that_have_it(prefix, start, tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    torchrun = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"
    variables = {} if prefix else {"OPENREG_AS": "cuda"}
    result = start(*prefix, *torchrun, str(program), **variables)
    lines = sorted(printed(result).splitlines())
    assert lines == [f"nccl cuda:{rank} [3.0, 3.0]" for rank in (0, 1)]
    assert result.stderr.count("CUDA is software") == 1


CHILD = """
import multiprocessing, torch

def child(queue):
    try:
        queue.put(torch.ones(2, device="cuda").sum().item())
    except RuntimeError as error:
        queue.put(str(error))

if __name__ == "__main__":
    before = {before}
    context = multiprocessing.get_context("{method}")
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""
TOO_LATE = "Cannot re-initialize CUDA in forked subprocess"


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, before, told",
    [
        ("spawn", "torch.ones(1, device='cuda')", "2.0"),
        ("fork", "torch.cuda.device_count()", "2.0"),
        ("fork", "torch.ones(1, device='cuda')", TOO_LATE),
    ],
    ids=["spawn", "fork", "fork after its first use"],
)
def test_children_of_multiprocessing_have_it(method, before, told, start, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CHILD.format(method=method, before=before))
    result = start(str(program), OPENREG_AS="cuda")
    assert printed(result).startswith(told)


# --- what is refused ----------------------------------------------------------


def test_enable_after_torch_says_why_not_and_the_way_out(run_python):
    code = "import torch_openreg.cuda; torch_openreg.cuda.enable()"
    result = run_python(code, check=False)
    (line,) = [x for x in result.stderr.splitlines() if x.startswith("RuntimeError")]
    assert "came after `import torch`" in line
    assert "python -m torch_openreg.cuda" in line


@pytest.mark.parametrize(
    "versions, built_for",
    [("'12.8', None", "CUDA 12.8"), ("None, '6.4.1'", "ROCm 6.4.1")],
    ids=["CUDA", "ROCm"],
)
def test_a_torch_for_gpus_is_refused(versions, built_for, start, tmp_path):
    """As far as it got: what tells is the module that its build wrote."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("from . import version\n")
    (package / "version.py").write_text(f"cuda, hip = {versions}\n")
    result = start("-c", "import torch", OPENREG_AS="cuda", PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert f"this one is for {built_for}: unset OPENREG_AS" in result.stderr


def test_an_unknown_name_is_refused(start):
    result = start("-c", "import torch", OPENREG_AS="cudaa")
    assert result.returncode == 1
    assert "OPENREG_AS is 'cudaa', but it must be openreg or cuda" in result.stderr


# --- who does not ask ---------------------------------------------------------


def test_without_the_variable_python_starts_as_ever(start):
    code = "import sys; print([m for m in sys.modules if 'openreg' in m])"
    found = start("-c", code).stdout
    assert "torch_openreg'" not in found


def test_without_the_variable_there_is_no_cuda(start):
    code = """
import sys, torch
torch.ones(2, device="openreg").sum().item()
print([m for m in sys.modules if m.startswith("torch_openreg.cuda")])
print(hasattr(torch._C, "_cuda_init"), torch.version.cuda, torch.cuda.is_available())
try:
    torch.ones(1, device="cuda")
except AssertionError as error:
    print(error)
"""
    result = start("-c", code)
    assert printed(result).splitlines() == [
        "[]",
        "False None False",
        "Torch not compiled with CUDA enabled",
    ]
    assert result.stderr == ""


# --- variables ----------------------------------------------------------------


@pytest.mark.parametrize(
    "visible, count", [("1", 1), ("0,1", 2), ("", 0), ("-1", 0), ("1,1", 0), ("1,x", 1)]
)
def test_visible_devices_are_as_cuda_reads_them(visible, count, run_cuda):
    code = "print(torch.cuda.device_count())"
    assert run_cuda(code, CUDA_VISIBLE_DEVICES=visible) == str(count)


FIRST_USES = ["torch.ones(1, device='cuda')", "torch.cuda.is_available()"]


@pytest.mark.parametrize("first", FIRST_USES)
def test_a_program_may_choose_devices_before_their_first_use(first, run_cuda):
    code = (
        "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
        f"{first}; print(torch.cuda.device_count())"
    )
    assert run_cuda(code) == "1"


def test_a_profile_sets_the_properties(run_cuda):
    code = (
        "p = torch.cuda.get_device_properties(0)\n"
        "print(p.name, torch.cuda.get_device_capability(), p.multi_processor_count)"
    )
    expected = "NVIDIA H100 80GB HBM3 (9, 0) 132"
    assert run_cuda(code, OPENREG_DEVICE_PROFILE="h100") == expected


def test_the_old_name_of_the_allocators_settings_works(run_cuda):
    code = (
        "torch.ones(1, device='cuda')\n"
        "print(torch.cuda.memory_stats()['max_split_size'])\n"
        "print(torch.cuda.memory._snapshot()['allocator_settings'][{name!r}])"
    )
    settings, name = "max_split_size_mb:64", "PYTORCH_CUDA_ALLOC_CONF"
    told = run_cuda(code.format(name=name), **{name: settings})
    assert told.splitlines() == [str(64 << 20), settings]


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_a_launch_waits_for_its_kernel_if_it_is_asked_to(blocking, run_cuda):
    code = (
        "torch.cuda.init(); torch.cuda._sleep(10**8)\n"
        "print(torch.cuda.current_stream().query())"
    )
    is_idle = run_cuda(code, CUDA_LAUNCH_BLOCKING=blocking)
    assert is_idle == str(blocking == "1")


def test_the_workspace_of_cublas_has_the_size_asked_for(start):
    code = "import torch; print(torch.backends.cuda.cublas_workspace_size())"
    variables = {"OPENREG_AS": "cuda", "CUBLAS_WORKSPACE_CONFIG": ":16:8:4096:2"}
    assert int(printed(start("-c", code, **variables))) == (16 * 8 + 4096 * 2) << 10
