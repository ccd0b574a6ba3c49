"""Kills device processes at random moments and looks at what its driver makes of it.

    OPENREG_EXECUTOR=process OMP_NUM_THREADS=1 python tests/kills.py STAGE ROUNDS SEED

Each round kills the process of device 0 at a random moment while the stage's work goes
on, wants "device lost" soon, resets the device and wants the right numbers again. In
the end nothing must be left over: memory, files, processes, mappings.
"""

import os
import random
import signal
import sys
import threading
import time

import remote
import torch
from torch_openreg.device import device_processes

DEVICE_LOST = 46
SOON = 20  # seconds; a hang is for ever
BYTES = 16 << 20


def find_process(driver, old=None):
    """The process of device 0, if it is another than the old one."""
    for process in device_processes():
        if (process.driver, process.device) == (driver, 0) and process.pid != old:
            return process.pid
    return None


class Killer(threading.Thread):
    """Kills the process `delay` seconds after there is one, other than the old."""

    def __init__(self, delay, driver=None, old=None):
        super().__init__(daemon=True)
        self.delay, self.driver, self.old = delay, driver or os.getpid(), old
        self.time = None

    def run(self):
        while (pid := find_process(self.driver, self.old)) is None:
            time.sleep(0.001)
        time.sleep(self.delay)
        self.time = time.monotonic()
        os.kill(pid, signal.SIGKILL)


def use_until_lost(work):
    """Works until the device is lost; returns when it heard of that."""
    while True:
        try:
            work()
        except torch.AcceleratorError as error:
            assert error.error_code == DEVICE_LOST, error
            return time.monotonic()


def lose(killer, work):
    killer.start()
    heard = use_until_lost(work)
    killer.join()
    assert heard - killer.time < SOON, f"heard of it {heard - killer.time:.1f} s later"


class Work:
    """What goes on in each stage, with its numbers looked at as it goes."""

    def __init__(self):
        self.x = torch.empty(BYTES // 4, device="openreg")
        self.host = torch.arange(BYTES // 4, dtype=torch.float)
        self.other = torch.ones(8, device="openreg:1").neg_()
        self.side = torch.openreg.Stream()
        self.step = 0

    def kernel(self):
        self.step += 1
        self.x.fill_(self.step)
        self.x.add_(1).mul_(2)
        made = torch.stack([self.x[:4096], self.x[4096:8192]])
        assert made.sum().item() == (self.step + 1) * 2 * 8192

    def copy(self):
        self.x.copy_(self.host)
        self.x.neg_()
        back = self.x.cpu()
        assert torch.equal(back, -self.host)

    def wait(self):
        for stream in (torch.openreg.current_stream(), self.side):
            with torch.openreg.stream(stream):
                for _ in range(50):
                    torch.ones(4096, device="openreg").add_(1)
        event = self.side.record_event()
        event.synchronize()
        torch.openreg.synchronize()

    def check(self):
        """After a reset, and on the other device all the time."""
        assert self.other.abs().sum().item() == 8
        torch.openreg.reset_device()
        self.kernel()
        self.copy()
        self.wait()


def kill_in(stage, rounds):
    work = Work()
    work.check()
    before = left_over()
    for _ in range(rounds):
        if stage == "start":
            old = find_process(os.getpid())
            torch.openreg.reset_device()
            lose(Killer(random.random() * 0.3, old=old), work.kernel)
        else:
            work.kernel()  # so that there is a process
            lose(Killer(random.random() * 0.02), getattr(work, stage))
        work.check()
    return before, left_over()


# --- between processes that share memory ------------------------------------------


def other_work(shared):
    """In the other process: uses its own memory and what it got."""

    def use_both():
        mine = torch.ones(1024, device="openreg").neg_()
        return (mine + shared[:1024]).sum().item()

    heard = use_until_lost(use_both)
    torch.openreg.reset_device()
    return heard, use_both(), shared.sum().item()


def lose_elsewhere(other, shared):
    """The other process loses its device; what it got from here stays whole."""
    other.send(other_work, shared)
    killer = Killer(random.random() * 0.02, other.process.pid)
    killer.start()
    heard, both, all_of_it = other.receive()
    killer.join()
    assert heard - killer.time < SOON
    assert both == 1024, both
    assert all_of_it == 2 * shared.numel(), all_of_it
    assert shared.sum().item() == 2 * shared.numel()


def kill_sharing(rounds):
    work = Work()
    work.check()
    before = left_over()
    for _ in range(rounds):
        other = remote.Remote()
        shared = torch.full((1 << 19,), 2.0, device="openreg")
        lose_elsewhere(other, shared)
        # And now here: what was sent from here is the other's no less.
        other(remote.keep, "shared", shared)
        lose(Killer(random.random() * 0.02), work.kernel)
        assert other(remote.read, "shared").sum().item() == 2 * shared.numel()
        other.close()
        del shared, other
        work.check()
        torch.openreg.ipc_collect()
    return before, left_over()


# --- what must be as before -------------------------------------------------------


def is_child(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1]) == os.getpid()
    except OSError:
        return False  # gone meanwhile


def children():
    return sum(is_child(name) for name in os.listdir("/proc") if name.isdigit())


def left_over():
    torch.openreg.synchronize()
    with open("/proc/self/maps") as maps:
        mappings = sum("memfd:openreg" in line for line in maps)
    return {
        "memory": [torch.openreg.memory_allocated(d) for d in (0, 1)],
        "files": len(os.listdir("/proc/self/fd")),
        "mappings": mappings,
        "processes": children(),
    }


def main(stage, rounds, seed):
    random.seed(int(seed))
    torch.set_num_threads(1)
    kill = kill_sharing if stage == "sharing" else lambda n: kill_in(stage, n)
    kill(1)  # what is made once
    before, after = kill(int(rounds))
    assert after == before, (before, after)


if __name__ == "__main__":
    main(*sys.argv[1:])
