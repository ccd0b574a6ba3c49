"""The device in CUDA's place: CUDA's names, what is refused, and PyTorch's tools."""

import re
from pathlib import Path

import pytest
import torch

TORCH = Path(torch.__file__).parent

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
        "properties = torch.cuda.get_device_properties\n"
        "print(type(properties(0)), properties(0) == properties())\n"
        "print(torch.cuda.FloatTensor.__doc__)\n"
        "for call in (lambda: torch.cuda.utilization('cpu'),\n"
        "             lambda: torch.cuda.Event().record('x'),\n"
        "             lambda: torch.empty(1 << 60, device='cuda')):\n"
        "    try:\n        call()\n"
        "    except Exception as error:\n        print(error)\n"
    )
    assert run_cuda(code).splitlines() == [
        "_CudaDeviceProperties",
        "<class 'torch._C._CudaDeviceProperties'> True",
        "A torch.float32 tensor on a cuda device.",
        "Expected a cuda device, but got: cpu",
        "expected stream to be a torch.Stream or torch.cuda.Stream object, but got str",
        "CUDA out of memory. Tried to allocate more than 1EB memory.",
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
    "torch.utils.cpp_extension.load('m', ['a.cu'])": "with CUDA sources",
    "torch.utils.cpp_extension.load_inline('m', '', '__global__ void f() {}')": (
        "an extension with CUDA sources"
    ),
    "torch.cuda.power_draw()": "power_draw()",
}


@pytest.mark.parametrize("call, name", REFUSED.items(), ids=REFUSED.values())
def test_what_cannot_work_is_named(call, name, run_cuda):
    code = (
        "import torch.utils.cpp_extension\n"
        "open('a.cu', 'w').close()\n"
        "x = torch.ones(2, device='cuda')\n"
        f"try:\n    {call}\nexcept Exception as error:\n    print(error)\n"
    )
    told = run_cuda(code)
    assert name in told and "OPENREG_AS=cuda" in told, told


def test_other_libraries_find_no_array_interface(run_cuda):
    code = "x = torch.ones(2, device='cuda'); print(hasattr(x, '__{}__'))"
    assert run_cuda(code.format("cuda_array_interface")) == "False"


def test_modules_compute_what_they_compute_on_the_cpu(run_tests):
    """A sample of `make test-cuda`."""
    modules = Path(__file__).parent / "conformance" / "test_modules.py"
    names = "Conv2d or LSTM or BatchNorm2d or MultiheadAttention"
    run_tests("-k", names, modules, OPENREG_AS="cuda", OPENREG_QUIET="1")


# --- CUDA's libraries ---------------------------------------------------------


def test_functions_of_the_runtime_return_codes_of_cuda(run_cuda):
    code = (
        "x, cudart = torch.ones(1 << 12), torch.cuda.cudart()\n"
        "done = cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\n"
        "again = cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\n"
        "print(done == cudart.cudaError.success, done.value, again.value != 0)\n"
        "print(cudart.cudaHostUnregister(x.data_ptr()).value)\n"
    )
    assert run_cuda(code).splitlines() == ["True 0 True", "0"]


def test_one_pop_too_many_is_forgiven_as_by_nvtx(run_cuda):
    code = "from torch.cuda import nvtx; print(nvtx.range_pop() < 0)"
    assert run_cuda(code) == "True"


def test_switches_of_libraries_are_kept(run_cuda):
    code = """
cuda = torch.backends.cuda
print(cuda.preferred_blas_library("cublaslt"), cuda.preferred_blas_library())
print(cuda.preferred_linalg_library("cusolver"), cuda.preferred_linalg_library())
cuda.cufft_plan_cache[1].max_size = 10
cuda.cufft_plan_cache.clear()
print([cuda.cufft_plan_cache[i].max_size for i in (0, 1)], cuda.cufft_plan_cache.size)
"""
    blas, linalg = "_BlasBackend.Cublaslt", "_LinalgBackend.Cusolver"
    assert run_cuda(code).splitlines() == [
        f"{blas} {blas}",
        f"{linalg} {linalg}",
        "[4096, 10] 0",
    ]


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
        "torch.cuda.current_stream().wait_stream(side)\n"
        "a.add_(1)\n"
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
        "_gpu_trace.register_callback_for_event_record(lambda *a: print(a[1]))\n"
        "torch.cuda.Event().record()\n"
    )
    assert run_cuda(code).splitlines() == ["True", "0"]


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


def test_copies_between_devices_check_what_they_are_given(run_cuda):
    code = """
from torch.cuda import comm

x, there = torch.ones(4, 2), torch.ones(4, 2, device="cuda:1")
out = [torch.empty(4, 2, device="cuda:0"), torch.empty(4, 2, device="cuda:1")]
print(all(map(lambda a, b: a is b, comm.broadcast(x, out=out), out)))
print(len(comm.scatter(x, [0, 1], streams=[torch.cuda.Stream(0)])))
for call in (
    lambda: comm.broadcast(x, out=[x]),
    lambda: comm.broadcast(x, out=[there[1:]]),
    lambda: comm.scatter(x, []),
    lambda: comm.scatter(x, [0], chunk_sizes=[1, 3]),
    lambda: comm.scatter(x, out=[]),
    lambda: comm.scatter(x, dim=-2, out=[there[:, 1:]]),
    lambda: comm.scatter(x, out=[there[1:]]),
    lambda: comm.scatter(x, [0, 1], streams=[torch.cuda.Stream(1)]),
    lambda: comm.gather([]),
    lambda: comm.gather([x]),
    lambda: comm.gather([there, there[0]]),
    lambda: comm.gather([there, there[:, 1:]]),
    lambda: comm.gather([there], out=there[1:]),
):
    try:
        print("not refused:", call())
    except RuntimeError as error:
        print(str(error)[:48])
"""
    assert run_cuda(code).splitlines() == [
        "True",
        "2",
        "Expected all output tensors to be CUDA tensors, ",
        "Expected all output tensors to have same shape a",
        "Expected at least one device to scatter to",
        "Expected devices and chunk_sizes to be of same l",
        "Expected at least one output tensor to scatter t",
        "Output tensor at index 0 has incorrect shape: [4",
        "Total size for output tensors along scatter dim ",
        "Expected the device associated with the stream a",
        "Expected at least one tensor to gather from",
        "Expected all input tensors to be CUDA tensors, b",
        "Expected all input tensors to have the same numb",
        "Input tensor at index 1 has invalid shape [4, 1]",
        "Expected out tensor to have shape [4, 2], but go",
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

def convolve(x, weight):
    if not x.is_cuda:  # else by cuDNN's own names
        y = F.conv2d(x, weight, stride=2)
        return y, F.conv_transpose2d(y, weight, padding=1)
    rest = (1, 1), 1, False, True, True
    y = torch.cudnn_convolution(x, weight, (0, 0), (2, 2), *rest)
    return y, torch.cudnn_convolution_transpose(
        y, weight, (1, 1), (0, 0), (1, 1), *rest
    )

def run(place):
    weight = kernel.to(place, copy=True).requires_grad_()
    sum(y.square().sum() for y in convolve(image.to(place), weight)).backward()
    heard = scores.to(place, copy=True).requires_grad_()
    F.ctc_loss(heard, words.to(place), *lengths).backward()
    F.ctc_loss(heard, words.to(place), [9, 8], [2, 2]).backward()
    whole = torch.quantize_per_tensor(image, 0.1, 0, torch.qint8).to(place).clone()
    half = image.half().to(place).requires_grad_()
    for f in F.softmax, F.log_softmax:
        f(half, -1, dtype=torch.float32).square().sum().backward()
    with torch.inference_mode():
        sure = F.softmax(half, -1, dtype=torch.float32)
    gradients = weight.grad, heard.grad, half.grad
    numbers = whole.dequantize(), kernel.to(place).abs(), sure, *gradients
    return [x.cpu() for x in numbers]

print(all(map(torch.equal, run("cuda"), run("cpu"))))
"""
    assert run_cuda(code) == "True"


def test_files_are_read_where_cuda_is_and_where_it_is_not(run_cuda, run_python):
    run_cuda("torch.save(torch.arange(3.0, device='cuda:1'), 'ours')")
    told = run_python("""
import torch
print(torch.load("ours", map_location="cpu").tolist())
try:
    torch.load("ours")
except RuntimeError as error:
    print(str(error).partition(" but")[0])
# As a machine with GPUs would write it.
torch.serialization.register_package(0, lambda storage: "cuda:0", lambda *_: None)
torch.save(torch.arange(4.0), "theirs")
""")
    attempt = "Attempting to deserialize object on a CUDA device"
    assert told.splitlines() == ["[0.0, 1.0, 2.0]", attempt]
    code = "x = torch.load('theirs'); print(x.device, x.tolist())"
    assert run_cuda(code) == "cuda:0 [0.0, 1.0, 2.0, 3.0]"
