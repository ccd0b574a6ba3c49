"""The CPU's turns in a process of their own, which never loads the device: what the
device does to its process must not slow its rival down."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from . import Function, once


class Rival:
    """A process that runs `program --serve`, and times what that can make."""

    def __init__(self, program: Path, threads: int):
        command = [sys.executable, program, "--serve", "--threads", str(threads)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )

    def seconds(self, name: str, calls: int) -> float:
        """Seconds per call; what happens in a first call is not counted."""
        self._process.stdin.write(json.dumps([name, calls]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, str):
            raise RuntimeError(f"on the CPU: {answer}")
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def serve(makers: Mapping[str, Callable[[str], Function]]) -> None:
    """The other end: answers each line until there are no more."""
    assert not hasattr(torch, "openreg")
    name, function = None, None
    for line in sys.stdin:
        asked, calls = json.loads(line)
        try:
            if asked != name:
                name, function = None, None  # one at a time is in memory
                function = makers[asked]("cpu")
                function()
                name = asked
            answer = once(function, calls, wait=lambda: None)
        except Exception as error:
            answer = str(error) or type(error).__name__
        print(json.dumps(answer), flush=True)
