"""One rank: makes its device the current one and runs the script as Python would."""

import os
import runpy
import sys

import torch


def main(command: list[str]) -> None:
    torch.openreg.set_device(int(os.environ["LOCAL_RANK"]))
    module = command[0] == "-m"
    sys.argv = command[1:] if module else command
    if module:
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
