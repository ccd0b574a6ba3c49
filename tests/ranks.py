"""Programs of several ranks: children of one warm process, or with `threads=True`
threads of one process, each with a device and a group.

`run_ranks(start_python, folder, body, 4)` runs the body of a function in each rank, with
`rank`, `size`, `torch`, `dist` and `device`, and returns what each of them returned.
"""

import json
import textwrap

PROGRAM = """
import ctypes, faulthandler, json, os, signal, sys, traceback
import torch
import torch.distributed as dist

folder, size, backend = {folder!r}, {size}, {backend!r}
{setup}

# The server's threads would not survive a fork, so it is started after it.
port_of_server, tell_port = os.pipe()

def connect():
    return dist.TCPStore("127.0.0.1", port)

def join(name="store", **options):
    store = dist.PrefixStore(name, connect())
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, **options)

def body(rank, size, device):
{body}

def run(rank):
    torch.openreg.set_device(rank % torch.openreg.device_count())
    device = torch.device("openreg", torch.openreg.current_device())
    if {joins}:
        join()
    result = body(rank, size, device)
    if {joins} and dist.is_initialized():
        dist.destroy_process_group()
    with open(os.path.join(folder, f"result{{rank}}"), "w") as file:
        json.dump(result, file)
"""

PROCESSES = """
children = []
for rank in range(size):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # A rank that waits for ever tells where, and none outlives the program.
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            port = int(os.read(port_of_server, 8))
            faulthandler.dump_traceback_later({patience}, exit=True)
            torch.set_num_threads(1)  # not before: its pool does not survive a fork
            run(rank)
            status = 0
        except BaseException:
            print(f"rank {{rank}}:", traceback.format_exc(), file=sys.stderr, flush=True)
        finally:
            sys.stdout.flush()
            os._exit(status)
    children.append(child)
server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
os.write(tell_port, size * (b"%8d" % server.port))
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(json.dumps(codes))
"""

# c10d has one default group per process, unless its world is that of its own tests.
THREADS = """
import threading
from torch.distributed import distributed_c10d
from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld

distributed_c10d._world = ThreadLocalWorld()
torch._C._distributed_c10d._set_thread_isolation_mode(True)
server, codes = dist.HashStore(), [1] * size
faulthandler.dump_traceback_later({patience}, exit=True)

def connect():
    return server

def join(name="store", **options):
    rank = threading.current_thread().rank
    store = dist.PrefixStore(name, connect())
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, **options)

def run_thread(rank):
    threading.current_thread().rank = rank
    try:
        run(rank)
        codes[rank] = 0
    except BaseException:
        print(f"rank {{rank}}:", traceback.format_exc(), file=sys.stderr, flush=True)

threads = [threading.Thread(target=run_thread, args=(rank,)) for rank in range(size)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(codes))
"""


# What optimizers, DDP and others import when they are used, and would in every rank.
PRELOAD = (
    "torch._dynamo",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.experimental",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
)


def run_ranks(
    start_python,
    folder,
    body,
    size,
    backend="cpu:gloo,openreg:occl",
    joins=True,
    threads=False,
    **options,
):
    """Returns the results; `expect` says which exit codes are right, 0 for all else;
    `setup` is run once, before there are ranks."""
    expect = options.pop("expect", [0] * size)
    code = (PROGRAM + (THREADS if threads else PROCESSES)).format(
        folder=str(folder),
        size=size,
        backend=backend,
        joins=joins,
        setup=options.pop("setup", ""),
        patience=options.pop("patience", 60),
        body=textwrap.indent(textwrap.dedent(body), "    "),
    )
    options.setdefault("timeout", 120)
    options.setdefault("preload", PRELOAD)
    result = start_python(code, folder, **options)
    assert result.returncode == 0, result.stderr
    codes = json.loads(result.stdout.splitlines()[-1])
    assert codes == expect, result.stderr
    paths = [folder / f"result{rank}" for rank in range(size)]
    return [json.loads(p.read_text()) if p.exists() else None for p in paths]
