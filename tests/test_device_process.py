"""OPENREG_EXECUTOR=process: the same device, with its kernels in another process."""

import json

import pytest

HELP = """
import json, os, signal, sys, torch
from torch_openreg.device import device_processes

def processes():
    return {p.device: p for p in device_processes() if p.driver == os.getpid()}
"""


@pytest.fixture
def run_elsewhere(run_python):
    """Runs code with kernels in device processes and returns what it printed."""

    def run(code, **options):
        options = {"OPENREG_EXECUTOR": "process", "OMP_NUM_THREADS": "1"} | options
        return run_python(HELP + code, timeout=100, **options)

    return run


# --- the same numbers -------------------------------------------------------------

TRAINING = """
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(36, 16), nn.Dropout(), nn.LayerNorm(16), nn.Linear(16, 3),
)
x, y = torch.randn(8, 1, 8, 8), torch.randint(3, (8,))
torch.openreg.manual_seed(1)
net, x, y = net.to("openreg"), x.to("openreg"), y.to("openreg")
optimizer = torch.optim.Adam(net.parameters(), 0.01)
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
stats = torch.openreg.memory_stats()
print(json.dumps([losses, [
    stats[f"{key}.all.{which}"]
    for key in ("allocation", "allocated_bytes", "reserved_bytes")
    for which in ("current", "peak", "allocated")
]]))
"""


SLOW = pytest.mark.slow
SCHEDULES = [pytest.param("async", marks=SLOW), pytest.param("auto", marks=SLOW)]


@pytest.mark.parametrize("schedule", ["adversarial", *SCHEDULES])
def test_training_gives_the_same_losses_and_memory_in_either_place(
    run_elsewhere, schedule
):
    there = run_elsewhere(TRAINING, OPENREG_SCHEDULE=schedule)
    here = run_elsewhere(
        TRAINING,
        OPENREG_EXECUTOR="thread",
        # Kernels that are elsewhere never run on the calling thread.
        OPENREG_SCHEDULE="async" if schedule == "auto" else schedule,
    )
    there, here = json.loads(there), json.loads(here)
    assert there[0] == here[0]
    # The adversary decides which first calls find memory at once.
    assert schedule == "adversarial" or there == here


CASES = """
def rand(*sizes, dtype=torch.float):
    return torch.randn(*sizes, dtype=dtype)

a, b = rand(5, 7), rand(7, 5)
cases = {
    "typed": lambda t: torch.nonzero(t(a)),
    "structured": lambda t: t(a) + 1,
    "queued": lambda t: t(rand(300, 300)) @ t(rand(300, 300)),
    "boxed": lambda t: torch.linalg.eig(t(a[:, :5])),
    "remembered": lambda t: torch.conv2d(t(a[None, None]), t(b[None, None, :3, :3])),
    "in place": lambda t: t(a).abs_(),
    "a list": lambda t: torch._foreach_add([t(a), t(b)], [1, 2.5]),
    "optional tensors": lambda t: t(a)[None, :, t(torch.tensor([3, 0]))],
    "an index of the host": lambda t: t(a)[torch.tensor([3, 0])],
    "a number of the host": lambda t: t(a) * torch.tensor(2.0, dtype=torch.double),
    "a word": lambda t: torch.searchsorted(t(a[0].sort()[0]), t(b), side="right"),
    "a complex number": lambda t: t(a) * (1 + 2j),
    "a view": lambda t: t(a).unfold(0, 2, 1),
    "strides": lambda t: t(a).t()[1:].exp(),
    "conj": lambda t: t(rand(3, 4, dtype=torch.cfloat)).conj().mT.exp(),
    "neg": lambda t: t(rand(3, 4, dtype=torch.cfloat)).conj().imag.exp(),
    "no elements": lambda t: t(rand(0, 4)).sum(0),
    "undefined results": lambda t: torch.native_batch_norm(
        t(rand(4, 3)), None, None, None, None, True, 0.1, 1e-5),
    "a resized output": lambda t: torch.kthvalue(
        t(a), 2, out=(t(rand(0)), t(torch.empty(0, dtype=torch.long)))),
    "random": lambda t: t(a).exponential_(generator=None),
    "a permutation": lambda t: torch.randperm(9, device=t(a).device),
    "a bool": lambda t: torch.equal(t(a), t(a)),
}
"""

COMPARISON = (
    CASES
    + """
def results(case, device):
    torch.manual_seed(3)
    result = case(lambda tensor: tensor.to(device))
    return result if isinstance(result, (tuple, list)) else [result]

wrong = []
for name, case in cases.items():
    for cpu, device in zip(results(case, "cpu"), results(case, "openreg"), strict=True):
        if isinstance(cpu, torch.Tensor):
            alike = cpu.stride() == device.stride() and cpu.dtype == device.dtype
            bits = cpu.resolve_conj().resolve_neg()
            back = device.cpu().resolve_conj().resolve_neg()
            if not (device.device.type == "openreg" and alike and torch.equal(bits, back)):
                wrong.append(name)
        elif cpu != device:
            wrong.append(name)
stayed = [name for name in torch.openreg.fallback_report() if "not in" in name]
print(json.dumps([wrong, stayed, processes()[0].calls]))
"""
)


def test_every_way_to_an_operator_gives_the_cpus_bits(run_elsewhere):
    wrong, stayed, calls = json.loads(run_elsewhere(COMPARISON))
    assert wrong == []
    assert stayed == []
    assert calls > 20


def test_the_first_step_of_a_fused_optimizer_runs_there_too(run_elsewhere):
    code = """
weight = torch.ones(4, device="openreg", requires_grad=True)
weight.grad = torch.ones_like(weight).neg()
torch.openreg.synchronize()
before = processes()[0].calls
torch.optim.SGD([weight], lr=1.0, fused=True).step()
torch.openreg.synchronize()
print(weight.tolist(), processes()[0].calls - before)
"""
    assert run_elsewhere(code) == "[2.0, 2.0, 2.0, 2.0] 1"


def test_errors_of_kernels_keep_their_kind_and_sentence(run_elsewhere):
    code = """
x = torch.zeros(3, 3, device="openreg")
def told(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0]]
print(json.dumps([
    told(lambda: torch.linalg.cholesky(x - 1)),
    told(lambda: torch.linalg.eig(x.half())),
    told(lambda: torch.kthvalue(x, 9)),
]))
"""
    there, here = (
        json.loads(run_elsewhere(code, OPENREG_EXECUTOR=executor))
        for executor in ("process", "thread")
    )
    assert there == here
    assert all(there)


def test_an_index_out_of_bounds_breaks_the_device_with_the_kernels_sentence(
    run_elsewhere,
):
    code = """
x = torch.zeros(4, device="openreg")
try:
    x[torch.tensor([9], device="openreg")]
    torch.openreg.synchronize()
except torch.AcceleratorError as error:
    print(error.error_code, "out of bounds" in str(error))
"""
    assert run_elsewhere(code) == "710 True"


def test_warnings_of_kernels_arrive(run_elsewhere):
    code = """
import warnings
out = torch.zeros(2, device="openreg"), torch.zeros(1, device="openreg").long()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.kthvalue(torch.randn(3, 3, device="openreg"), 1, out=out)
print(any("resized" in str(w.message) for w in caught))
"""
    assert run_elsewhere(code) == "True"


# --- what stays here --------------------------------------------------------------

STAYS = """
library = torch.library.Library("stays", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CPU")
x = torch.ones(3, device="openreg")
"""


def test_an_operator_that_the_process_does_not_have_runs_here_and_is_counted(
    run_elsewhere,
):
    code = """
print(torch.ops.stays.twice(x).tolist())
print(torch.openreg.fallback_report()["stays::twice (not in the device process)"])
"""
    assert run_elsewhere(STAYS + code) == "[2.0, 2.0, 2.0]\n1"


def test_a_kernel_of_our_own_stays_here_and_is_counted(run_elsewhere):
    code = """
x = torch.tensor([1, 2, 2], device="openreg")
print(torch.histc(x, 2, min=1, max=2).tolist())
print(torch.openreg.fallback_report()["aten::histc (not in the device process)"])
"""
    assert run_elsewhere(code) == "[1, 2]\n1"


def test_what_stays_here_can_be_refused(run_elsewhere):
    code = """
try:
    torch.ops.stays.twice(x)
except NotImplementedError as error:
    print("stays::twice" in str(error), "OPENREG_FALLBACK" in str(error))
"""
    assert run_elsewhere(STAYS + code, OPENREG_FALLBACK="error") == "True True"


# --- streams and threads ----------------------------------------------------------


def test_streams_and_threads_have_a_channel_each_and_threads_give_theirs_back(
    run_elsewhere,
):
    code = """
import threading
x = torch.ones(8, device="openreg").abs_()
torch.openreg.synchronize()
before = processes()[0].channels
def work():
    y = torch.ones(8, device="openreg")
    for _ in range(50):
        y = (y + 1).clamp(max=5)
    numbers.append(y.sum().item())
numbers = []
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
while processes()[0].channels > before + 1:  # one is the stream's, if it had work
    pass
print(numbers)
"""
    assert run_elsewhere(code) == "[40.0, 40.0, 40.0, 40.0]"


def test_the_status_command_lists_the_processes(run_elsewhere):
    code = """
import subprocess
print(subprocess.run([sys.executable, "-m", "torch_openreg.device"], text=True,
                     capture_output=True, check=True).stdout)
torch.ones(1 << 20, device="openreg:1").abs_()
torch.openreg.synchronize(1)
print(subprocess.run([sys.executable, "-m", "torch_openreg.device"], text=True,
                     capture_output=True, check=True).stdout)
print(os.getpid(), processes()[1].pid)
"""
    before, after = run_elsewhere(code).split("PID")[1:]
    driver, pid = after.splitlines()[-1].split()
    assert pid not in before
    row = next(line.split() for line in after.splitlines() if line.split()[0] == pid)
    assert row[1:3] == ["1", driver]


def test_the_status_tells_of_memory_streams_queue_and_operator(run_elsewhere):
    code = """
x = torch.ones(4096, 4096, device="openreg").abs_()
torch.openreg.synchronize()
assert processes()[0].memory_used >= 64 << 20, processes()
assert processes()[0].memory_total == torch.openreg.mem_get_info()[1]

def until(holds):
    while not holds(processes()[0]):
        pass

def sort():
    return [torch.sort(x) for _ in range(3)]

sort()  # the first waits
with torch.openreg.stream(torch.openreg.Stream()):
    sort()
until(lambda p: p.streams == 2 and 2 <= p.tasks <= 6 and "aten::sort" in p.running)
os.kill(processes()[0].pid, signal.SIGKILL)
print("seen")
"""
    assert run_elsewhere(code) == "seen"
