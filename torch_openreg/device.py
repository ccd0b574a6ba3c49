"""Shows the device processes on this machine, as ``nvidia-smi`` does.

    python -m torch_openreg.device [--loop SECONDS]

With ``OPENREG_EXECUTOR=process`` each device that is in use has one. Only those of the
same user are shown.
"""

import argparse
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# csrc/remote/StatusPage.h says what is where.
PROGRAM = "openreg-device"
STATUS_DESCRIPTOR = 4
HEAD = struct.Struct("=IiiIQQQQQ")
MAGIC = 0x4F524431
SLOT_BYTES, SLOTS = 64, 62


@dataclass
class DeviceProcess:
    """What a device process reports about itself."""

    pid: int
    device: int
    driver: int
    channels: int  # threads that kernels run on
    calls: int
    memory_used: int  # bytes allocated on the device
    memory_total: int
    tasks: int  # queued or running
    streams: int  # with such tasks
    running: list[str]  # operators


def read_status(pid: int) -> DeviceProcess | None:
    """A device process's status; None if it is none, has ended, or is another user's."""
    descriptors = Path(f"/proc/{pid}/fd")
    try:
        if Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)") != (
            PROGRAM
        ):
            return None
        with (
            open(descriptors / str(STATUS_DESCRIPTOR), "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as page,
        ):
            content = page[: SLOT_BYTES * (1 + SLOTS)]
    except (OSError, ValueError):
        return None
    magic, device, driver, *figures = HEAD.unpack_from(content)
    if magic != MAGIC:
        return None
    slots = (
        content[start + 4 : start + SLOT_BYTES]
        for start in range(SLOT_BYTES, len(content), SLOT_BYTES)
        if content[start]
    )
    names = (slot.split(b"\0")[0].decode(errors="replace") for slot in slots)
    running = [name for name in names if name]
    return DeviceProcess(pid, device, driver, *figures, running)


def device_processes() -> Iterator[DeviceProcess]:
    """All device processes, by process id."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if status := read_status(pid):
            yield status


def report() -> str:
    """A table of the device processes."""
    lines = [
        f"{'PID':<8} {'DEVICE':>6} {'DRIVER':>8} {'MEMORY':>18} {'STREAMS':>7} "
        f"{'QUEUED':>6} {'CALLS':>10}  RUNNING"
    ]
    for status in device_processes():
        memory = f"{status.memory_used >> 20} / {status.memory_total >> 20} MiB"
        lines.append(
            f"{status.pid:<8} {status.device:>6} {status.driver:>8} {memory:>18} "
            f"{status.streams:>7} {status.tasks:>6} {status.calls:>10}  "
            f"{', '.join(status.running) or '-'}"
        )
    if len(lines) == 1:
        lines.append("no device process (OPENREG_EXECUTOR=process starts them)")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_openreg.device",
        description="Shows the device processes of this user.",
    )
    parser.add_argument(
        "--loop", type=float, metavar="SECONDS", help="repeat the list at this interval"
    )
    options = parser.parse_args(arguments)
    if options.loop is not None and not options.loop > 0:
        parser.error(f"--loop must be more than 0, but is {options.loop}")
    while True:
        print(report(), flush=True)
        if options.loop is None:
            return 0
        time.sleep(options.loop)


if __name__ == "__main__":
    sys.exit(main())
