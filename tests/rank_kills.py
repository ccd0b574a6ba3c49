"""Kills ranks at random moments of their collectives and looks at the others.

    python tests/rank_kills.py ROUNDS SEED

Each round starts three ranks, kills one while calls go on, and wants the others to hear
of it before the timeout, by an error that names it; to make a group without it that
works; and to have nothing left over: descriptors, mappings, processes. Of all deaths half
must be heard of within a second: a machine with other work may be late sometimes.
"""

import gc
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SIZE = 3
SOON = 1  # seconds
TIMEOUT = 300  # seconds


def left_over():
    """What a group must give back."""
    gc.collect()
    with open("/proc/self/maps") as maps:
        mappings = sum("memfd:openreg" in line for line in maps)
    return mappings, len(os.listdir("/proc/self/fd"))


def work(x, parts, rank):
    """One of each kind, over slots and in place."""
    for size in (16, x.numel()):
        some, pieces = x[:size], [part[:size] for part in parts]
        dist.all_reduce(some)
        dist.broadcast(some, 0)
        dist.all_gather(pieces, some)
        dist.reduce_scatter(some, pieces)
        dist.all_to_all(pieces, [part.clone() for part in pieces])
    if rank < 2:  # a message too
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    torch.openreg.synchronize()


def make_group(port, name, rank, size):
    store = dist.PrefixStore(name, dist.TCPStore("127.0.0.1", port))
    timeout = timedelta(seconds=TIMEOUT)
    dist.init_process_group(
        "occl", store=store, rank=rank, world_size=size, timeout=timeout
    )


def rank_main(rank, victim, pipe):
    port = pipe.recv()
    torch.set_num_threads(1)
    torch.openreg.set_device(rank % torch.openreg.device_count())
    x = torch.ones(50_000, device="openreg")
    parts = [torch.ones(50_000, device="openreg") for _ in range(SIZE)]
    for device in range(torch.openreg.device_count()):
        torch.ones(1, device=f"openreg:{device}")  # a group shares the memory of all
    before = left_over()
    make_group(port, "first", rank, SIZE)
    work(x, parts, rank)
    pipe.send("ready")
    error = ""
    try:
        while True:
            work(x, parts, rank)
    except RuntimeError as caught:
        heard, error = time.monotonic(), str(caught)
    dist.destroy_process_group()
    rest = [r for r in range(SIZE) if r != victim]
    make_group(port, "second", rest.index(rank), len(rest))
    y = torch.ones(50_000, device="openreg")
    dist.all_reduce(y)
    assert y.eq(len(rest)).all().item()
    dist.destroy_process_group()
    pipe.send((heard, error, before, left_over()))


def one_round(context, delays):
    victim, delay = random.randrange(SIZE), random.random() * 0.05
    pipes, processes = [], []
    for rank in range(SIZE):
        ours, theirs = context.Pipe()
        process = context.Process(target=rank_main, args=(rank, victim, theirs))
        processes.append(process)
        pipes.append(ours)
        process.start()
    # Its threads would not survive a fork.
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for pipe in pipes:
        pipe.send(server.port)
    for pipe in pipes:
        assert pipe.poll(TIMEOUT), "a rank hangs before anybody is killed"
        assert pipe.recv() == "ready"
    time.sleep(delay)
    killed = time.monotonic()
    os.kill(processes[victim].pid, signal.SIGKILL)
    for rank in (r for r in range(SIZE) if r != victim):
        assert pipes[rank].poll(TIMEOUT / 2), f"rank {rank} hangs"
        heard, error, before, after = pipes[rank].recv()
        delays.put(heard - killed)
        assert f"rank {victim}" in error, error
        assert after[0] <= before[0], ("mappings", before, after)
        assert after[1] <= before[1] + 4, ("descriptors", before, after)
    for process in processes:
        process.join(TIMEOUT)
        assert process.exitcode in (0, -signal.SIGKILL), process.exitcode


def main(rounds, seed):
    random.seed(int(seed))
    context = multiprocessing.get_context("fork")
    queue, delays = context.SimpleQueue(), []
    for _ in range(int(rounds)):
        process = context.Process(target=one_round, args=(context, queue))
        process.start()
        process.join()
        assert process.exitcode == 0
        delays += [queue.get() for _ in range(SIZE - 1)]
    median, latest = statistics.median_low(delays), max(delays)
    print(f"a death is heard of after {median:.3f} s, at the latest {latest:.3f} s")
    assert median < SOON


if __name__ == "__main__":
    main(*sys.argv[1:])
