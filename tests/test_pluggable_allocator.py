"""Device memory from an allocator that a program brings."""

import shutil
import subprocess
from pathlib import Path

import pytest

import torch_openreg

SOURCE = """
#include <openreg.h>
#include <stdlib.h>

long live, calls;
void* give(ssize_t size, int device, orStream_t stream) {
  void* pointer = NULL;
  orSetDevice(device);
  if (orMalloc(&pointer, size) != orSuccess) {
    orGetLastError();
    return NULL;
  }
  live += size;
  ++calls;
  return pointer;
}
void* give_host(ssize_t size, int device, orStream_t stream) {
  return malloc(size);
}
void take_host(void* pointer, ssize_t size, int device, orStream_t stream) {
  free(pointer);
}
void take(void* pointer, ssize_t size, int device, orStream_t stream) {
  orStreamSynchronize(stream);
  orFree(pointer);
  live -= size;
}
"""
START = """
import ctypes, torch
from torch import openreg
library = ctypes.CDLL({path!r})
live, calls = (ctypes.c_long.in_dll(library, name) for name in ("live", "calls"))
allocator = openreg.memory.OpenRegPluggableAllocator({path!r}, "give", "take")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    package = Path(torch_openreg.__file__).parent
    folder = tmp_path_factory.mktemp("pluggable")
    (folder / "allocator.c").write_text(SOURCE)
    command = [
        *(shutil.which("cc") or "gcc", "-shared", "-fPIC", "-o", "allocator.so"),
        *(
            "allocator.c",
            f"-I{package / 'include'}",
            f"-L{package / 'lib'}",
            "-lopenreg",
        ),
    ]
    subprocess.run(command, cwd=folder, check=True)
    return str(folder / "allocator.so")


@pytest.fixture
def run(run_python, library):
    return lambda code, **options: run_python(
        START.format(path=library) + code, **options
    )


def test_all_memory_comes_from_it_and_goes_back(run):
    code = """
openreg.memory.change_current_allocator(allocator)
model = torch.nn.Linear(300, 4).to("openreg:1")
x = torch.ones(8, 300, device="openreg:1")
with torch.no_grad():  # a backward pass may still free things when it is over
    loss = model(x).cumsum(0).square().mean()
    assert live.value > 300 * 8 * 4, live.value
    assert openreg.memory_allocated(1) == 0
    numbers = x.cpu(), model.weight.cpu(), model.bias.cpu()
    assert torch.equal(model(x).cpu(), torch.nn.functional.linear(*numbers))
del model, x, loss
openreg.synchronize(1)
print(calls.value > 5, live.value, openreg.memory.get_allocator_backend())
"""
    assert run(code) == "True 0 pluggable"


def test_it_is_refused_once_memory_was_allocated(run):
    code = """
x = torch.ones(2, device="openreg")
try:
    openreg.memory.change_current_allocator(allocator)
except RuntimeError as error:
    print(error, calls.value, openreg.memory.get_allocator_backend())
"""
    assert run(code) == "Can't swap an already initialized allocator 0 native"


def test_the_current_allocator_is_reported_and_cannot_be_set_again_after_use(run):
    code = """
get, change = openreg.memory._get_current_allocator, openreg.memory.change_current_allocator
change(get())  # nothing was allocated, and nothing changes
x = torch.ones(2, device="openreg")
try:
    change(get())
except RuntimeError as error:
    print(error, openreg.memory.get_allocator_backend())
"""
    assert run(code) == "Can't swap an already initialized allocator native"
    plugged = "change = openreg.memory.change_current_allocator; change(allocator)\n"
    told = "print(openreg.memory._get_current_allocator() is allocator)"
    assert run(plugged + told) == "True"


def test_no_memory_is_the_usual_error(run):
    code = """
openreg.memory.change_current_allocator(allocator)
try:
    torch.empty(1 << 40, device="openreg")
except torch.OutOfMemoryError as error:
    print("Tried to allocate" in str(error), live.value)
"""
    assert run(code) == "True 0"


def test_the_cache_stays_off(run):
    code = """
openreg.memory.change_current_allocator(allocator)
x = torch.ones(2, device="openreg")
openreg.caching_allocator_enable(True)
y = torch.ones(2, device="openreg")
print(calls.value)
"""
    assert run(code) == "2"


def test_a_missing_function_is_reported(run):
    code = """
try:
    openreg.memory.OpenRegPluggableAllocator(library._name, "give", "nothing")
except AttributeError as error:
    print(error)
"""
    assert "nothing" in run(code)


def test_memory_of_the_host_is_refused_when_it_is_used(run):
    """What a library gives that knows nothing of the device."""
    code = """
hosts = openreg.memory.OpenRegPluggableAllocator(
    library._name, "give_host", "take_host")
openreg.memory.change_current_allocator(hosts)
x = torch.empty(4, device="openreg")
try:
    x.fill_(1)
    openreg.synchronize()
except RuntimeError as error:
    print(error)
"""
    assert "is not memory of an openreg device" in run(code)


# In CUDA's place.
CUDA = """
import ctypes
library = ctypes.CDLL({path!r})
live, calls = (ctypes.c_long.in_dll(library, name) for name in ("live", "calls"))
memory = torch.cuda.memory
allocator = memory.CUDAPluggableAllocator({path!r}, "give", "take")
"""


def test_it_is_cudas_too(run_cuda, library):
    code = """
memory.change_current_allocator(allocator)
x = torch.ones(8, 300, device="cuda:1")
y = (x @ x.t()).sum().item()
print(y, calls.value > 1, memory.get_allocator_backend())
del x
torch.cuda.synchronize(1)
print(live.value)
"""
    told = run_cuda(CUDA.format(path=library) + code).splitlines()
    assert told == ["19200.0 True pluggable", "0"]


def test_it_cannot_replace_cudas_that_was_used(run_cuda, library):
    code = """
torch.ones(1, device="cuda")
try:
    memory.change_current_allocator(allocator)
except RuntimeError as error:
    print(error)
"""
    told = run_cuda(CUDA.format(path=library) + code)
    assert told == "Can't swap an already initialized allocator"


# --- a pool with an allocator of its own ----------------------------------------

POOL = """
pool = m.MemPool(allocator.allocator())
assert pool.allocator == allocator.allocator() and calls.value == 0
before = m.memory_reserved()
with m.use_mem_pool(pool):
    x = torch.full((1 << 18,), 2.0, device=name)
    y = torch.ones(1 << 18, device=name)
assert (x + y).sum().item() == 3 << 18  # this memory is the device's
assert (calls.value, live.value) == (1, 2 << 20), (calls.value, live.value)
assert m.memory_reserved() - before == 4 << 20
assert [segment["total_size"] for segment in pool.snapshot()] == [2 << 20]

graph = Graph()
with m.graph(graph, pool=pool.id):
    z = x * y
graph.replay()
assert z.sum().item() == 2 << 18 and calls.value == 2

del z, graph, pool
assert live.value == 2 << 20, live.value  # the pool is gone, its tensors are not
del x, y
m.empty_cache()
print(live.value)
"""


def test_a_pool_may_have_an_allocator_of_its_own(run):
    start = "m, name, Graph = openreg, 'openreg', openreg.OpenRegGraph\n"
    assert run(start + POOL) == "0"


def test_a_pool_of_cudas_may_too(run_cuda, library):
    start = "m, name, Graph = torch.cuda, 'cuda', torch.cuda.CUDAGraph\n"
    assert run_cuda(CUDA.format(path=library) + start + POOL) == "0"


def test_a_pool_whose_allocator_has_no_memory_fails_as_usual(run):
    code = """
with openreg.use_mem_pool(openreg.MemPool(allocator.allocator())):
    try:
        torch.empty(1 << 40, device="openreg")
    except torch.OutOfMemoryError as error:
        print("Tried to allocate" in str(error), live.value)
"""
    assert run(code) == "True 0"


def test_a_pool_refuses_what_is_not_an_allocator(run):
    code = """
try:
    openreg.MemPool(allocator)
except TypeError as error:
    print(error)
"""
    assert "allocator must be what allocator() of an OpenRegPlugg" in run(code)
