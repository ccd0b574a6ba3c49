"""The device in CUDA's place: how it starts, what it refuses, and CUDA's names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TORCH = Path(torch.__file__).parent


@pytest.fixture
def run_cuda(run_python):
    """Runs code in a Python whose CUDA is the device; returns what it printed."""

    def run(code, **environment):
        variables = {"OPENREG_AS": "cuda", "OPENREG_QUIET": "1", **environment}
        return run_python("import torch\n" + code, **variables)

    return run


@pytest.fixture
def start(tmp_path):
    """Starts Python itself, with arguments."""

    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            text=True,
            capture_output=True,
        )

    return run


# --- start --------------------------------------------------------------------


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


def test_enable_comes_before_torch(start):
    code = (
        "import torch_openreg.cuda; torch_openreg.cuda.enable(); import torch\n"
        "print(torch.cuda.is_available(), hasattr(torch, 'openreg'))"
    )
    assert start("-c", code, OPENREG_QUIET="1").stdout == "True False\n"


def test_enable_after_torch_says_why_not_and_the_way_out(run_python):
    code = "import torch_openreg.cuda; torch_openreg.cuda.enable()"
    result = run_python(code, check=False)
    (line,) = [x for x in result.stderr.splitlines() if x.startswith("RuntimeError")]
    assert "came after `import torch`" in line
    assert "python -m torch_openreg.cuda" in line


def test_a_torch_with_cuda_is_refused(start, tmp_path):
    """As far as it got: what tells is the module that its build wrote."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("from . import version\n")
    (package / "version.py").write_text("cuda, hip = '12.8', None\n")
    result = start("-c", "import torch", OPENREG_AS="cuda", PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert "this one is for CUDA 12.8: unset OPENREG_AS" in result.stderr


def test_a_name_that_is_none_is_refused(start):
    result = start("-c", "import torch", OPENREG_AS="cudaa")
    assert result.returncode == 1
    assert "OPENREG_AS is 'cudaa', but it must be openreg or cuda" in result.stderr


def test_without_the_variable_python_starts_as_ever(start):
    code = "import sys; print([m for m in sys.modules if 'openreg' in m])"
    found = start("-c", code).stdout
    assert "torch_openreg'" not in found


# --- names --------------------------------------------------------------------


def names_of_cuda():
    """What PyTorch's Python looks for in torch._C, and a PyTorch without CUDA lacks."""
    names = set()
    for path in TORCH.rglob("*.py"):
        if "testing" not in path.parts:
            names |= set(re.findall(r"\b_C\.(_cuda_\w+|_nccl_\w+)", path.read_text()))
    return sorted(names)


# For AMD's devices; and in a list of names that nothing of PyTorch calls.
NOT_THERE = {"_cuda_getHipblasltVersion", "_cuda_beginAllocateCurrentStreamToPool"}


def test_no_name_that_pytorch_looks_for_is_missing(run_cuda):
    names = names_of_cuda()
    assert len(names) > 90
    code = f"print([n for n in {names} if not hasattr(torch._C, n)])"
    assert set(eval(run_cuda(code))) <= NOT_THERE


def test_a_device_has_a_context_when_it_was_used(run_cuda):
    code = (
        "has = torch._C._cuda_hasPrimaryContext\n"
        "print(has(0), has(1))\n"
        "torch.ones(1, device='cuda:1')\n"
        "print(has(0), has(1))\n"
    )
    assert run_cuda(code).splitlines() == ["False False", "False True"]


def test_the_default_stream_is_0_to_programs(run_cuda):
    code = (
        "default, side = torch.cuda.default_stream(1), torch.cuda.Stream(1)\n"
        "print(default.cuda_stream, side.cuda_stream == 0)\n"
        "print(torch.cuda.ExternalStream(0, 1) == default)\n"
        "print(torch.cuda.get_stream_from_external(side.cuda_stream, 1) == side)\n"
        "print(torch._C._cuda_getCurrentRawStream(1))\n"
        "address = torch.cuda.caching_allocator_alloc(512, 0, 0)\n"
        "torch.cuda.caching_allocator_delete(address)\n"
    )
    assert run_cuda(code).splitlines() == ["0 False", "True", "True", "0"]


def test_words_are_cudas(run_cuda):
    code = (
        "print(repr(torch.cuda.get_device_properties(0)).split('(')[0])\n"
        "print(torch.cuda.FloatTensor.__doc__)\n"
        "for call in (lambda: torch.cuda.utilization('cpu'),\n"
        "             lambda: torch.cuda.Event().record('x')):\n"
        "    try:\n        call()\n"
        "    except Exception as error:\n        print(error)\n"
    )
    assert run_cuda(code).splitlines() == [
        "_CudaDeviceProperties",
        "A torch.float32 tensor on a cuda device.",
        "Expected a cuda device, but got: cpu",
        "expected stream to be a torch.Stream or torch.cuda.Stream object, but got str",
    ]


REFUSED = {
    "torch.cuda.temperature()": "torch.cuda.temperature()",
    "torch.cuda.current_blas_handle()": "cuBLAS",
    "torch.cuda.tunable.enable()": "TunableOp",
    "torch.cuda.nccl.unique_id()": "a communicator",
    "torch.cuda.memory._set_memory_metadata('x')": "_set_memory_metadata",
    "torch.from_dlpack(x)": "DLPack",
    "x.__dlpack__()": "DLPack",
    "torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T x) "
    "{ return x; }')(x)": "jiterator",
    "torch.cuda._compile_kernel('', 'f')": "_compile_kernel",
    "torch.utils.cpp_extension.CUDAExtension('m', ['a.cu'])": "CUDA sources",
}


@pytest.mark.parametrize("call, name", REFUSED.items(), ids=REFUSED.values())
def test_what_cannot_work_is_named(call, name, run_cuda):
    code = (
        "import torch.utils.cpp_extension\n"
        "x = torch.ones(2, device='cuda')\n"
        f"try:\n    {call}\nexcept Exception as error:\n    print(error)\n"
    )
    told = run_cuda(code)
    assert name in told and "OPENREG_AS=cuda" in told, told


def test_others_find_no_array_interface(run_cuda):
    code = "x = torch.ones(2, device='cuda'); print(hasattr(x, '__{}__'))"
    assert run_cuda(code.format("cuda_array_interface")) == "False"


# --- variables ----------------------------------------------------------------


@pytest.mark.parametrize(
    "visible, count", [("1", 1), ("0,1", 2), ("", 0), ("-1", 0), ("1,1", 0), ("1,x", 1)]
)
def test_visible_devices_are_as_cuda_reads_them(visible, count, run_cuda):
    code = "print(torch.cuda.device_count())"
    assert run_cuda(code, CUDA_VISIBLE_DEVICES=visible) == str(count)


def test_a_program_may_choose_devices_before_their_first_use(run_cuda):
    code = (
        "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
        "print(torch.cuda.device_count(), torch.ones(1, device='cuda').device)"
    )
    assert run_cuda(code) == "1 cuda:0"


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
        "print(torch.cuda.memory_stats()['max_split_size'])"
    )
    settings = "max_split_size_mb:64"
    assert run_cuda(code, PYTORCH_CUDA_ALLOC_CONF=settings) == str(64 << 20)


# --- tools of PyTorch for CUDA ------------------------------------------------


def test_pytorchs_own_sanitizer_finds_a_race(run_cuda):
    code = (
        "import torch.cuda._sanitizer as csan\n"
        "csan.enable_cuda_sanitizer()\n"
        "a = torch.rand(4, 2, device='cuda')\n"
        "side = torch.cuda.Stream()\n"
        "try:\n"
        "    with torch.cuda.stream(side):\n"
        "        torch.mul(a, 5, out=a)\n"
        "except csan.CUDASanitizerErrors as errors:\n"
        "    (error,) = errors.errors\n"
        "    print('CSAN detected a possible data race' in str(error))\n"
        "side.wait_stream(torch.cuda.current_stream())\n"
        "with torch.cuda.stream(side):\n"
        "    torch.mul(a, 5, out=a)\n"
    )
    assert run_cuda(code) == "True"


def test_the_gpu_trace_tells_of_streams_and_memory(run_cuda):
    code = (
        "from torch.cuda import _gpu_trace\n"
        "told = []\n"
        "_gpu_trace.register_callback_for_memory_allocation(told.append)\n"
        "torch._C._activate_gpu_trace()\n"
        "x = torch.empty(8, device='cuda')\n"
        "print(told == [x.data_ptr()])\n"
    )
    assert run_cuda(code) == "True"


def test_a_tensor_type_of_cuda_can_be_the_default(run_cuda):
    code = (
        "torch.set_default_tensor_type('torch.cuda.DoubleTensor')\n"
        "print(torch.zeros(1).type(), torch.tensor([1.5]).type())\n"
        "torch.set_default_tensor_type(torch.FloatTensor)\n"
        "print(torch.zeros(1).type())\n"
    )
    cuda = "torch.cuda.DoubleTensor"
    assert run_cuda(code).splitlines() == [f"{cuda} {cuda}", "torch.FloatTensor"]


def test_storages_are_made_grown_and_freed(run_cuda):
    code = (
        "s = torch.UntypedStorage(16, device='cuda:1')\n"
        "t = torch.tensor([], device='cuda:1').set_(s).fill_(7)\n"
        "t.untyped_storage().resize_(0)\n"
        "print(s.device, s.nbytes(), torch.cuda.memory_allocated(1))\n"
        "s.resize_(1024)\n"
        "print(s.nbytes(), torch.cuda.memory_allocated(1))\n"
        "print(torch.UntypedStorage([1, 2, 3], device='cuda').tolist())\n"
    )
    assert run_cuda(code).splitlines() == [
        "cuda:1 0 0",
        "1024 1024",
        "[1, 2, 3]",
    ]


def test_devices_of_one_process_reduce_with_nccls_functions(run_cuda):
    code = (
        "import torch.cuda.nccl as nccl\n"
        "def make(): return [torch.arange(4.0, device=f'cuda:{i}') + i for i in (0, 1)]\n"
        "x = make(); nccl.all_reduce(x); print(x[1].tolist())\n"
        "x = make(); nccl.all_reduce(x, op=2); print(x[0].tolist())\n"
        "x = make(); nccl.broadcast(x, root=1); print(x[0].tolist())\n"
        "x = make(); out = torch.empty(4, device='cuda:1')\n"
        "nccl.reduce(x, out, root=1); print(out.tolist())\n"
        "out = [torch.empty(8, device=f'cuda:{i}') for i in (0, 1)]\n"
        "nccl.all_gather(x, out); print(out[1].tolist())\n"
        "out = [torch.empty(2, device=f'cuda:{i}') for i in (0, 1)]\n"
        "nccl.reduce_scatter(x, out); print(out[0].tolist(), out[1].tolist())\n"
    )
    assert run_cuda(code).splitlines() == [
        "[1.0, 3.0, 5.0, 7.0]",
        "[1.0, 2.0, 3.0, 4.0]",
        "[1.0, 2.0, 3.0, 4.0]",
        "[1.0, 3.0, 5.0, 7.0]",
        "[0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]",
        "[1.0, 3.0] [5.0, 7.0]",
    ]


def test_nccls_functions_order_the_streams_they_are_given(run_cuda):
    """The inputs are filled late, each in the stream of its device."""
    code = """
import torch.cuda.nccl as nccl

streams = [torch.cuda.Stream(i) for i in (0, 1)]

def late():
    inputs = [torch.zeros(4, device=f"cuda:{i}") for i in (0, 1)]
    torch.cuda.synchronize(0), torch.cuda.synchronize(1)
    for x, stream in zip(inputs, streams):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.fill_(stream.device_index + 1)
    return inputs

def told(outputs):
    for stream in streams:
        stream.synchronize()
    print([x.tolist()[0] for x in outputs])

x = late(); nccl.all_reduce(x, streams=streams); told(x)
x = late(); nccl.broadcast(x, root=1, streams=streams); told(x)
x = late(); nccl.reduce(x, x[1], root=1, streams=streams); told(x[1:])
out = [torch.empty(8, device=f"cuda:{i}") for i in (0, 1)]
nccl.all_gather(late(), out, streams=streams); told([x[3:5] for x in out])
out = [torch.empty(2, device=f"cuda:{i}") for i in (0, 1)]
nccl.reduce_scatter(late(), out, streams=streams); told(out)
"""
    assert run_cuda(code).splitlines() == [
        "[3.0, 3.0]",
        "[2.0, 2.0]",
        "[3.0]",
        "[1.0, 1.0]",
        "[3.0, 3.0]",
    ]


def test_operators_that_have_another_way_for_cuda_give_the_cpus_numbers(run_cuda):
    code = """
from torch.nn import functional as F
torch.manual_seed(0)
image, kernel = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
scores, words = torch.randn(9, 2, 5).log_softmax(2), torch.tensor([[1, 2], [3, 4]])
lengths = torch.tensor([9, 8]), torch.tensor([2, 2])

def run(place):
    weight = kernel.to(place, copy=True).requires_grad_()
    F.conv2d(image.to(place), weight, stride=2).square().sum().backward()
    heard = scores.to(place, copy=True).requires_grad_()
    F.ctc_loss(heard, words.to(place), *lengths).backward()
    F.ctc_loss(heard, words.to(place), [9, 8], [2, 2]).backward()
    return weight.grad.cpu(), heard.grad.cpu(), kernel.to(place).abs().cpu()

print(all(map(torch.equal, run("cuda"), run("cpu"))))
"""
    assert run_cuda(code) == "True"
