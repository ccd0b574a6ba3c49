"""Starts Python programs at once, from processes that have imported torch already.

Importing torch takes longer than most programs of the tests. A server has done it,
without torch_openreg, and forks a child for each program. The child takes over its
environment and its folder, loads torch_openreg as `import torch` would have, and runs
the program as `python -c` does. What is read before that cannot be taken over, so
there is a server for each set of such variables.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

# Are read when torch_openreg is loaded, or later; or tell of the running test.
LATE = "OPENREG_", "CUBLAS", "CUDA_", "PYTEST_", "TORCH_FR_"
# But these: torch itself is not the same.
EARLY = "OPENREG_AS", "OPENREG_QUIET"
MOST_BYTES = 1 << 17  # of a message

SERVER = f"""
import gc, importlib, json, os, socket, sys
import torch
for name in sys.argv[2:]:
    importlib.import_module(name)
gc.freeze()  # a child that looks for garbage, at its end too, copies no pages of it

def wait_for_program():
    channel = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, outputs, *_ = socket.recv_fds(channel, {MOST_BYTES}, 2)
        if not message:
            sys.exit()
        child = os.fork()
        if child == 0:
            program = json.loads(message)
            os.setpgid(0, 0)
            os.dup2(outputs[0], 1)
            os.dup2(outputs[1], 2)
            os.chdir(program["folder"])
            os.environ.clear()
            os.environ.update(program["environment"])
            sys.argv = ["-c"]
        for file in outputs:
            os.close(file)
        if child == 0:
            channel.close()
            if torch._is_device_backend_autoload_enabled():
                torch._import_device_backends()
            for name in [name for name in globals() if not name.startswith("__")]:
                del globals()[name]
            return compile(program["code"], "<string>", "exec")
        channel.send(str(child).encode())
        status = os.waitpid(child, 0)[1]
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())

# Not in the function: a program runs in __main__ and ends with the interpreter.
exec(wait_for_program())
"""


class Server:
    def __init__(self, environment, preload):
        self.channel, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, str(there.fileno()), *preload],
                env={**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def run(self, code, folder, environment, timeout):
        """As subprocess.run() with `capture_output`."""
        program = {"code": code, "folder": str(folder), "environment": environment}
        ours, theirs = zip(os.pipe(), os.pipe(), strict=True)
        socket.send_fds(self.channel, [json.dumps(program).encode()], theirs)
        for file in theirs:
            os.close(file)
        child = int(self.channel.recv(100))
        late = threading.Event()

        def end():
            late.set()
            os.killpg(child, signal.SIGKILL)

        timer = threading.Timer(timeout, end)
        timer.start()
        with ThreadPoolExecutor(2) as pool:
            outputs = list(pool.map(read, ours))
        status = int(self.channel.recv(100))
        timer.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(code, timeout, *outputs)
        return subprocess.CompletedProcess(code, status, *outputs)

    def close(self):
        self.channel.close()
        self.process.wait()


def read(file):
    with open(file) as stream:
        return stream.read()


class Servers:
    """Starts programs; keeps a server for each set of early variables, and of modules
    to `preload` beside torch."""

    def __init__(self):
        self.servers = {}

    def __call__(self, code, folder, timeout=60, preload=(), **variables):
        environment = {**os.environ, **variables}
        early = {
            name: value
            for name, value in environment.items()
            if name in EARLY or not name.startswith(LATE)
        }
        key = frozenset(early.items()), preload
        if key not in self.servers:
            self.servers[key] = Server(early, preload)
        return self.servers[key].run(code, folder, environment, timeout)

    def close(self):
        for server in self.servers.values():
            server.close()
