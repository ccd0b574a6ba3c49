"""Level 9: tensors that go to other processes."""

import os

import torch

from ..check import check
from ..expect import expect_equal

PAGE = "sharing.md"

RECEIVER = """
import torch.multiprocessing as mp

def work(inbox, outbox):
    x = inbox.get()
    x.mul_(2)
    torch.accelerator.synchronize()
    outbox.put(float(x.sum()))
    inbox.get()

if __name__ == "__main__":
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=work, args=(inbox, outbox))
    child.start()
    x = torch.ones(8, device="{device}")
    inbox.put(x)
    print(outbox.get(timeout=60), float(x.sum()))
    inbox.put(None)
    child.join()
"""


def run_file(device, text):
    """Runs a program from a file, as spawned children need; returns what it printed."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w") as file:
            file.write(device.imports + text.format(device=device.at()))
        code = f"import runpy, sys; sys.argv = [{path!r}]\n"
        code += f"sys.path.insert(0, {folder!r}); import program\n"
        code += f"runpy.run_path({path!r}, run_name='__main__')"
        return device.expect_python(code, seconds=100)


@check(
    call="queue.put(x) of torch.multiprocessing",
    write="`_share_device_` and `_new_shared_device` of the storage, or reductions of your"
    " own, over handles of the driver's memory.",
    page=PAGE,
    needs=("sharing",),
    seconds=120,
)
def processes_share_memory(device):
    """A tensor sent to another process is the same memory there."""
    found = run_file(device, RECEIVER)
    expect_equal(
        found.split(), ["16.0", "16.0"], "the sums of the child and the parent"
    )


@check(
    call="x.cpu().share_memory_() beside the device",
    write="Do not replace the CPU's way of sharing.",
    page=PAGE,
    seconds=120,
)
def the_cpus_sharing_still_works(device):
    """Tensors of the CPU are shared as before."""
    found = run_file(device, RECEIVER.replace("{device}", "cpu"))
    expect_equal(
        found.split(), ["16.0", "16.0"], "the sums of the child and the parent"
    )
    x = torch.ones(3).share_memory_()
    expect_equal(x.to(device.at()).sum().item(), 3.0, "the sum on the device")
