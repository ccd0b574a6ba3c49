"""Tells what a device did in a trace, and what it waited for.

    python -m torch_openreg.timeline trace.json [--top N] [--gap MICROSECONDS]

The trace is one that ``torch.profiler`` exported, of openreg or of CUDA, plain or
packed (`.json.gz`). The command prints how busy each stream was, the longest gaps with
the host call that each of them ended with, the slowest kernels, how much of the copies
ran beside kernels, and what to do next.
"""

from ._trace import Gap, NotATrace, Row, StreamRows, Trace, load

__all__ = ["Gap", "NotATrace", "Row", "StreamRows", "Trace", "load"]
