"""Level 13: threads, forked children, and the end of the process."""

import torch

from ..check import check
from ..expect import expect, in_threads

PAGE = "errors.md"


@check(
    call="operators on several threads",
    write="Locks around what threads share; nothing of a call in static variables.",
    page=PAGE,
)
def compute_at_once(device):
    """Threads compute at the same time, each with its own result."""
    host, x = device.pair(16, 16)

    def work():
        y = x
        for _ in range(20):
            y = (y @ x).tanh() + 1
        return y

    y = host
    for _ in range(20):
        y = (y @ host).tanh() + 1
    for found in in_threads(work, 6):
        device.expect_close(found, y, "a thread's result", scale=100)


@check(
    call="threads with a device each",
    write="The current device per thread, and guards in every kernel.",
    page=PAGE,
    needs=("devices",),
)
def use_a_device_each(device):
    """Threads on different devices do not disturb each other."""
    numbers = iter(range(4))

    def work():
        index = next(numbers) % device.count
        torch.accelerator.set_device_index(index)
        for _ in range(30):
            x = torch.ones(100, device=device.name) * 2
            device.expect_on_device(x, "a tensor of a thread", index)
        return float(x.sum())

    found = in_threads(work, 4)
    expect(found == [200.0] * 4, f"the sums are {found}")


CHILD = """
import os, signal
x = torch.ones(4, device="{device}")
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        assert float(torch.ones(4, device="{device}").sum()) == 4
    except RuntimeError as error:
        os._exit(0 if str(error) else 3)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert float((x + 1).sum()) == 8
print(status)
"""


@check(
    call="os.fork() after the device was used",
    write="`pthread_atfork`, and an error in words in the child; a device without threads"
    " may simply work.",
    page=PAGE,
)
def forked_children_are_told(device):
    """A forked child gets an error or a working device, not a hang or a crash."""
    status = device.expect_python(CHILD.format(device=device.name))
    endings = {"-14": "hangs", "3": "gets an error without a word"}
    expect(
        status == "0", f"the child {endings.get(status, f'ends with status {status}')}"
    )


@check(
    call="the end of a program",
    write="Nothing of the runtime may be used after it is torn down: leak what static"
    " destructors would free, and wait for autograd's threads.",
    page="errors.md#the-end-of-a-process",
)
def programs_end_well(device):
    """A program ends with status 0 while tensors live and work is queued."""
    at = device.name
    device.expect_python(
        f"x = torch.ones(64, 64, device={at!r}, requires_grad=True)\n"
        "y = (x @ x).sum(); y.backward()\n"
        "for _ in range(20): z = x @ x\n"
    )
    device.expect_python(
        "import threading\n"
        f"keep = [torch.ones(9, device={at!r})]\n"
        "t = threading.Thread(target=lambda: keep.append(keep[0] * 2)); t.start()\n"
    )


@check(
    call="an exception that ends a program",
    write="As above: destructors do not throw.",
    page="errors.md#the-end-of-a-process",
)
def failing_programs_end_well(device):
    """A program that fails shows its error, and no crash after it."""
    result = device.run_python(
        f"x = torch.ones(4, device={device.name!r})\nraise SystemExit(7)"
    )
    expect(
        result.returncode == 7,
        f"the status is {result.returncode}, not 7: {result.stderr.strip()[-500:]}",
    )
