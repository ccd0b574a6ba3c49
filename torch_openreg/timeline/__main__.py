"""The command of torch_openreg.timeline."""

import argparse
import sys

from ..memory._text import table
from . import __doc__ as usage
from ._trace import Gap, NotATrace, Trace, load

PROG = "python -m torch_openreg.timeline"


def time(microseconds: float) -> str:
    """With a unit, such as `1.50 ms`."""
    for unit, least in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= least:
            return f"{microseconds / least:.2f} {unit}"
    return f"{microseconds:.1f} us"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole > 0 else "-"


def cause(gap: Gap) -> str:
    """What the host did that let a stream run dry."""
    if gap.call is None:
        return "not traced"
    if gap.queued_before:
        return "none: it waited for another stream"
    return gap.instead.name if gap.instead else "outside of operators"


def launch(gap: Gap) -> str:
    parts = [row.name for row in (gap.call, gap.operator) if row]
    return " in ".join(parts) or "not traced"


# --- what is printed --------------------------------------------------------------


def show_streams(trace: Trace) -> None:
    table(
        "streams",
        ("busy", "busy of", "idle", "rows", "stream"),
        (
            (
                time(stream.busy),
                share(stream.busy, stream.end - stream.start),
                time(stream.idle),
                str(len(stream.rows)),
                f"device {stream.device}, stream {stream.stream}",
            )
            for stream in trace.streams
        ),
        right=4,
    )


def show_gaps(gaps: list[Gap], top: int, at_least: float) -> None:
    if not gaps:
        print(f"gaps: none of {time(at_least)} or more")
        return
    table(
        f"gaps of {time(at_least)} and more: the longest {min(top, len(gaps))} of "
        f"{len(gaps)}",
        ("gap", "stream", "the host was in", "then called", "for"),
        (
            (
                time(gap.duration),
                str(gap.after.tid),
                cause(gap),
                launch(gap),
                gap.after.name,
            )
            for gap in gaps[:top]
        ),
        right=2,
    )


def show_kernels(trace: Trace, top: int) -> None:
    kernels = trace.kernels()
    total = sum(all_of_it for _, _, all_of_it in kernels)
    table(
        f"kernels: the slowest {min(top, len(kernels))} of {len(kernels)}",
        ("time", "of all", "calls", "each", "kernel"),
        (
            (
                time(all_of_it),
                share(all_of_it, total),
                str(n),
                time(all_of_it / n),
                name,
            )
            for name, n, all_of_it in kernels[:top]
        ),
        right=4,
    )


def show_copies(trace: Trace) -> None:
    copies, beside = trace.copies()
    print(
        f"copies: {time(copies)}, of which {time(beside)} ({share(beside, copies)}) "
        "beside kernels"
    )


# --- what to do next --------------------------------------------------------------


def advice(trace: Trace, gaps: list[Gap]) -> str:
    """One sentence about what costs most, in the stream that worked most."""
    main = max(trace.streams, key=lambda stream: stream.busy)
    span = main.end - main.start
    copies, beside = trace.copies()
    late = [
        gap
        for gap in gaps
        if (gap.after.pid, gap.after.tid) == (main.device, main.stream)
        and gap.call
        and not gap.queued_before
    ]
    waited = sum(gap.duration for gap in late)
    if waited > 0.25 * span:
        longest: dict[str, float] = {}
        for gap in late:
            longest[cause(gap)] = longest.get(cause(gap), 0) + gap.duration
        worst = max(longest, key=lambda name: longest[name])
        return (
            f"Next: stream {main.stream} waited {time(waited)} for the host, most of it "
            f"while that was in `{worst}`; give each call more work (a larger batch), or move what "
            "waits for a result out of the loop."
        )
    if copies - beside > 0.1 * span:
        return (
            f"Next: copies held the device up for {time(copies - beside)}; pin the "
            "host's memory, and copy with non_blocking=True in a stream of its own."
        )
    name, _, total = max(trace.kernels(), key=lambda item: item[2], default=("", 0, 0))
    if main.busy > 0.5 * span and name:
        return (
            f"Next: the device is busy, so only less work makes it faster; `{name}` "
            f"takes {time(total)}, so start there."
        )
    return (
        "Next: the gaps are short and many; queue the same work with fewer and larger "
        "operators."
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description=usage.split("\n\n", 2)[0],
        epilog=usage.split("\n\n", 2)[2],
    )
    add = parser.add_argument
    add("trace", help="file of export_chrome_trace(), .json or .json.gz")
    add("--top", type=int, default=10, help="kernels and gaps to print, %(default)s")
    add(
        "--gap",
        type=float,
        default=20.0,
        metavar="MICROSECONDS",
        help="shortest gap to count, %(default)s",
    )
    options = parser.parse_args(arguments)
    try:
        trace = load(options.trace)
        if not trace.device_rows:
            raise NotATrace(
                f"{options.trace} has no rows of a device: profile with "
                "activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]"
            )
    except (NotATrace, OSError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 2
    gaps = trace.gaps(options.gap)
    show_streams(trace)
    show_gaps(gaps, options.top, options.gap)
    show_kernels(trace, options.top)
    show_copies(trace)
    print(advice(trace, gaps))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
