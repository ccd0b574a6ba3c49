"""Threads of the user, of autograd, of streams and of OpenMP, all at once."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from models import TRAININGS, train

THREADS = 4
in_one_process = pytest.mark.in_threads(
    "the threads of kernels are in the device process"
)


def together(work):
    """Runs work(index) in threads that start at once, each with a stream of its own
    as the current one, and returns what they return."""
    start = threading.Barrier(THREADS)

    def run(index):
        device = index % torch.openreg.device_count()
        torch.openreg.set_stream(torch.openreg.Stream(device))
        start.wait()
        return work(index)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


# --- numbers ------------------------------------------------------------------


# Without dropout: threads would share its generator.
@pytest.mark.parametrize("name", ["unet", "experts"])
def test_nets_that_train_at_once_give_the_cpus_numbers(name):
    training = TRAININGS[name]
    model, batch = training.make()
    expected = train(model, batch, training.make_optimizer, "cpu", steps=8)

    def work(index):
        device = torch.openreg.current_device()
        return train(model, batch, training.make_optimizer, device, steps=8)

    for found in together(work):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_kernel_does_not_take_memory_that_work_behind_it_reads():
    """It runs on its own thread, and another queues work behind it and frees what
    that reads. What the kernel allocates then it uses at once."""
    inside, freed = threading.Event(), threading.Event()

    def run(x):
        inside.set()
        assert freed.wait(60)
        return torch.full_like(x, 7)

    with torch.library._scoped_library("meanwhile", "DEF") as library:
        library.define("run(Tensor x) -> Tensor")
        library.impl("run", run, "CPU")
        x = torch.ones(1 << 18, device="openreg")
        for _ in range(2):  # the first waits, the second is queued
            (x + 2).neg()
        read = x + 2
        torch.openreg.synchronize()
        with ThreadPoolExecutor(1) as pool:
            sevens = pool.submit(torch.ops.meanwhile.run, x)
            assert inside.wait(60)
            result = read.neg()
            del read
            freed.set()
            assert sevens.result().sum().item() == 7 * x.numel()
    assert result.sum().item() == -3 * x.numel()


# Mean what it warns of: the streams of the threads meet in the parameter.
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_threads_that_share_a_parameter_add_up_their_gradients():
    weight = torch.ones(200, 200, device="openreg:0", requires_grad=True)
    # Keeps the node that accumulates: a new one would do so in another stream, which waits
    # for nobody, as on CUDA.
    kept = weight * 1
    torch.openreg.synchronize(0)

    def work(index):
        with torch.openreg.stream(torch.openreg.Stream(0)):
            for _ in range(10):
                (weight * (index + 1)).sum().backward()
            torch.openreg.synchronize(0)

    together(work)
    kept.sum().backward()
    assert weight.grad.unique().tolist() == [10 * sum(range(1, THREADS + 1)) + 1]


def test_what_several_threads_made_is_used_behind_their_events():
    def work(index):
        x = torch.full((300, 300), index + 1, device="openreg:0")
        stream = torch.openreg.Stream(0)
        stream.wait_stream(torch.openreg.current_stream(0))
        x.record_stream(stream)
        with torch.openreg.stream(stream):
            for _ in range(20):
                x = x * 2 % 1009
        return x, stream.record_event()

    total = torch.zeros(300, 300, dtype=torch.int64, device="openreg:0")
    for x, ready in together(work):
        ready.wait()
        x.record_stream(torch.openreg.current_stream(0))
        total += x
    expected = sum((index + 1) * 2**20 % 1009 for index in range(THREADS))
    assert total.unique().tolist() == [expected]


def test_threads_that_share_a_stream_keep_each_others_work_whole():
    counter = torch.zeros(200, 200, device="openreg:0")
    stream = torch.openreg.Stream(0)
    stream.wait_stream(torch.openreg.default_stream(0))

    def work(index):
        with torch.openreg.stream(stream):
            for _ in range(50):
                counter.add_(1)

    together(work)
    stream.synchronize()
    assert counter.unique().tolist() == [50 * THREADS]


# --- how many there are -------------------------------------------------------

# A thread of OpenMP has the name of the one that made it.
NAMES = """
import json, os, time, torch

def names():
    tasks = os.listdir("/proc/self/task")
    return [open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks]

"""
COUNT = """
torch.set_num_threads({threads})
streams = [torch.openreg.Stream() for _ in range({streams})]

def use():
    for stream in streams:
        with torch.openreg.stream(stream):
            x = torch.ones(1000, 1000, device="openreg")
            for _ in range(4):
                x.sin()
    torch.openreg.synchronize()

def count():
    return names().count("openreg stream")

use()
first = count()
for _ in range(5):
    use()
print(json.dumps([first, count()]))  # pools do not pile up
"""


@in_one_process
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("streams", [1, 3])
def test_each_stream_computes_with_as_many_threads_as_torch_was_told(
    run_python, threads, streams
):
    code = COUNT.format(threads=threads, streams=streams)
    assert json.loads(run_python(NAMES + code)) == [streams * threads] * 2


def test_a_worker_leaves_the_number_of_threads_to_others(hold):
    def threads_of_a_new_thread():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.get_num_threads).result()

    before = torch.get_num_threads()
    x = torch.zeros(4, device="openreg").add_(1)  # the first call is not queued
    stream = torch.openreg.Stream()
    stream.wait_stream(torch.openreg.current_stream())
    try:
        torch.set_num_threads(2)
        gate = hold(stream)
        with torch.openreg.stream(stream):
            x.add_(1)
        torch.set_num_threads(1)
        gate.open()
        stream.synchronize()
        assert threads_of_a_new_thread() == 1
    finally:
        torch.set_num_threads(before)


SLOW = """
torch.set_num_threads(2)
x = torch.ones(4, 16, 32, 32, device="openreg")
for _ in range(100):
    torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
torch.openreg.synchronize()
print(names().count("openreg stream"))
"""


@in_one_process
def test_a_kernel_that_takes_long_for_its_bytes_gets_all_threads(run_python):
    assert run_python(NAMES + SLOW) == "2"


# Two of a step's gradients, each with several sums: no thread of a stream is needed.
COLUMNS = """
torch.set_num_threads(2)
x = torch.ones(64, 512, device="openreg")
x.sum(0), x.mean(-1)
print(names().count("openreg stream"))
"""


@in_one_process
def test_small_sums_that_no_thread_shares_run_at_once(run_python):
    assert run_python(NAMES + COLUMNS) == "0"


# A program that was started anew: a forked one, as of run_python, keeps its teams.
GIVEN_BACK = """
torch.set_num_threads(2)

def count():
    return len([name for name in names() if name != "openreg stream"])

before = count()
torch.ones(1000, 1000).sin()
print(count() - before)
torch.ones(1000, 1000, device="openreg").sum()
deadline = time.monotonic() + 60
while count() != before and time.monotonic() < deadline:
    time.sleep(0.001)  # threads end by themselves
print(count() - before)
print(torch.ones(1000, 1000).sin().eq(torch.ones(()).sin()).all().item())
"""


@in_one_process
@pytest.mark.skipif(os.cpu_count() < 2, reason="one thread is all there is")
def test_a_launching_thread_gives_the_team_of_its_cpu_operators_back():
    run = [sys.executable, "-c", NAMES + GIVEN_BACK]
    result = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert result.stdout.split() == ["1", "0", "True"], result.stderr


# OpenMP's threads are gone in the child, and it would wait for them.
FORKED = """
import os, signal, sys, torch

torch.set_num_threads(2)
torch.ones(1000, 1000).sin()
{before}
if os.fork() == 0:
    signal.alarm(60)
    import torch_openreg
    print(torch.ones(1000, 1000, device="openreg").sum().item(), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(os.cpu_count() < 2, reason="one thread is all there is")
@pytest.mark.parametrize("before", ["", "import torch_openreg"])
def test_a_child_does_not_wait_for_the_team_of_its_parent(run_python, before):
    code = FORKED.format(before=before)
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "1000000.0"


F = torch.nn.functional
IMAGES = (8, 16, 32, 32)
# The first ones round otherwise for each number of threads, the others do not: these
# may have one thread or all.
BY_THREADS = {
    "attention": (F.scaled_dot_product_attention, (3, 4, 1, 8), *[(3, 4, 8, 8)] * 2),
    "complex product": (
        lambda a, b: torch.complex(a, b).mH @ torch.complex(b, a),
        *[(25, 5)] * 2,
    ),
    "product of doubles": (lambda a, b: a.double() @ b.double().T, *[(17, 64)] * 2),
    "product of 7 rows": (torch.mm, (7, 31), (31, 128)),
    "product of 65 columns": (torch.mm, (200, 13), (13, 65)),
    "batch of 9 rows": (torch.bmm, (1, 9, 11), (1, 11, 96)),
    "gradient of 10 rows": (
        lambda a, b: torch.addmm(b[0], a.T, b),
        (32, 10),
        (32, 64),
    ),
    "inv": (torch.linalg.inv, (100, 100)),
    "batch_norm of rows": (
        lambda x: F.batch_norm(x, None, None, training=True),
        (700, 30),
    ),
    "softmax of columns": (lambda x: x.softmax(0), (512, 100)),
    "sum of a view": (lambda x: x[:, ::2].sum(0), (31053, 56)),
    "sum of all": (torch.sum, (300, 300)),
    "sum into a view": (
        lambda x: torch.sum(x, 0, out=x.new_empty(3, 10001).t()),
        (8, 10001, 3),
    ),
    "weight_norm": (lambda v, g: torch._weight_norm(v, g, 2), (32, 8, 8), (1, 1, 8)),
}
ANY_NUMBER = {
    "add": (torch.add, (1 << 17,), (1 << 17,)),
    "even product": (torch.mm, (32, 64), (64, 64)),
    "product of few columns": (torch.mm, (32, 64), (64, 10)),
    "softmax": (lambda x: x.softmax(-1), (512, 256)),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (512, 256)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), IMAGES),
    "group_norm": (lambda x: F.group_norm(x, 4), IMAGES),
    "sum of rows": (lambda x: x.sum(1), (512, 256)),
    "sum of columns": (lambda x: x.sum(0, dtype=torch.double), (767, 65)),
    "mean of images": (lambda x: x.mean((2, 3), keepdim=True), IMAGES),
    "cumsum": (lambda x: x.cumsum(0), (512, 256)),
}


@pytest.mark.skipif(os.cpu_count() < 2, reason="one thread is all there is")
@pytest.mark.parametrize("name", [*BY_THREADS, *ANY_NUMBER])
def test_kernels_have_the_bits_of_the_cpus_number_of_threads(name):
    call, *shapes = (BY_THREADS | ANY_NUMBER)[name]
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    before, results = torch.get_num_threads(), []
    try:
        for number in (1, 2, 4):
            torch.set_num_threads(number)
            results.append(call(*tensors))
            for _ in range(2):  # the first call is another one
                found = call(*(tensor.openreg() for tensor in tensors))
                assert torch.equal(found.cpu(), results[-1])
        if name in ANY_NUMBER:
            assert all(torch.equal(result, results[0]) for result in results)
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(os.cpu_count() < 2, reason="one thread is all there is")
def test_the_number_of_threads_reaches_the_backward():
    class Ask(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(torch.get_num_threads())
            return gradient

    seen, before = [], torch.get_num_threads()
    x = torch.ones(3, device="openreg", requires_grad=True)
    try:
        for number in (1, 2, 1):
            torch.set_num_threads(number)
            Ask.apply(x).sum().backward()
        assert seen == [1, 2, 1]
        # Another thread's number is its own, as that of a DataLoader's.
        torch.set_num_threads(2)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(torch.set_num_threads, 1).result()
        Ask.apply(x).sum().backward()
        assert seen[-1] == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# --- other schedules ----------------------------------------------------------


@pytest.mark.skipif("OPENREG_SCHEDULE" in os.environ, reason="is such a run itself")
@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_queued_work_gives_the_same(schedule, run_tests):
    """The numbers of this file, with everything queued that can be."""
    names = "nets or threads_that or made"
    run_tests(__file__, "-k", names, OPENREG_SCHEDULE=schedule)
