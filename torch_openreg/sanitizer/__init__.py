"""``torch.openreg.sanitizer``: finds bugs that a run of a program may not show.

    with torch.openreg.sanitizer.check():
        train_step()            # raises if two streams race for a tensor

``OPENREG_SANITIZE=race python train.py`` and ``python -m torch_openreg.sanitize
train.py`` do the same for a whole program.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _leaks

if TYPE_CHECKING:
    from ._finding import Finding
    from ._suppressions import Suppressions

__all__ = [
    "CHECKS",
    "DEFAULT",
    "SanitizerError",
    "check",
    "disable",
    "enable",
    "enabled_checks",
    "findings",
    "report_leaks",
    "save",
]

CHECKS = ("race", "memory", "init", "leak")
DEFAULT = "race,memory,init"  # what is left at the end of a block is often meant to be

_lock = threading.RLock()
_findings: dict[object, Finding] = {}
_suppressions: Suppressions | None = None
_quiet = False


class SanitizerError(RuntimeError):
    """Raised by `check()`; its text is the reports, ``findings`` the objects."""

    def __init__(self, found: list[Finding]) -> None:
        super().__init__("\n\n".join(map(str, found)))
        self.findings = found


def _bits(checks: str | Iterable[str]) -> int:
    names = checks.split(",") if isinstance(checks, str) else list(checks)
    bits = 0
    for name in (n.strip() for n in names):
        if name not in (*CHECKS, "all"):
            raise ValueError(
                f"expected checks out of {', '.join(CHECKS)}, or all, but got {name!r}"
            )
        bits |= (1 << len(CHECKS)) - 1 if name == "all" else 1 << CHECKS.index(name)
    return bits


def enable(
    checks: str | Iterable[str] = DEFAULT,
    *,
    suppressions: str | Path | None = None,
    quiet: bool = False,
) -> None:
    """Begin to look for bugs, with nothing known of what the program did before.

    Args:
        checks: names from `CHECKS`, as a list or separated by commas, or ``"all"``;
            all but ``leak`` by default.
        suppressions: a file that names findings to leave out.
        quiet: print nothing when something is found; `findings()` has it.

    Raises an error if the sanitizer is on already, and with
    ``OPENREG_EXECUTOR=process``.
    """
    global _suppressions, _quiet
    from torch_openreg import _C

    from ._suppressions import Suppressions

    chosen = Suppressions(suppressions)
    bits = _bits(checks)
    if not bits:
        raise ValueError(f"expected checks out of {', '.join(CHECKS)}, but got none")
    _C._sanitizerEnable(bits, _on_finding)
    if "leak" in enabled_checks():
        _leaks.watch()
    with _lock:
        _suppressions, _quiet = chosen, quiet
        _findings.clear()


def disable() -> None:
    """End looking for bugs; `findings()` keeps what was found."""
    from torch_openreg import _C

    _C._sanitizerDisable()


def enabled_checks() -> tuple[str, ...]:
    """The names of the checks that are on; none if the sanitizer is off."""
    from torch_openreg import _C

    bits = _C._sanitizerChecks()
    return tuple(name for i, name in enumerate(CHECKS) if bits >> i & 1)


def findings() -> list[Finding]:
    """What was found since `enable()`, one for each cause."""
    with _lock:
        return list(_findings.values())


@contextlib.contextmanager
def check(
    checks: str | Iterable[str] = DEFAULT, *, suppressions: str | Path | None = None
) -> Iterator[None]:
    """Run the block with the sanitizer on, and raise `SanitizerError` at its end if
    something was found. If it is on already, its checks stay as they are."""
    outer = enabled_checks()
    before = set(_findings) if outer else set()
    if not outer:
        enable(checks, suppressions=suppressions, quiet=True)
    try:
        yield
        report_leaks()
    finally:
        if not outer:
            disable()
    with _lock:
        found = [f for cause, f in _findings.items() if cause not in before]
    if found:
        raise SanitizerError(found)


def save(path: str | Path) -> None:
    """Write the findings as JSON, and next to it a page with a picture of each."""
    from ._report import save

    save(findings(), path)


def report_leaks() -> None:
    """Report what was made since `enable()` and is still there, if leaks are looked for:
    device memory, pinned memory, events and graphs."""
    if "leak" in enabled_checks():
        for finding in _leaks.find():
            _add(finding)


def _on_finding(raw: dict[str, Any]) -> None:
    from ._finding import make

    _add(make(raw))


def _add(finding: Finding) -> None:
    with _lock:
        if _suppressions and _suppressions.cover(finding):
            return
        if known := _findings.get(finding.cause):
            known.count += 1
            return
        _findings[finding.cause] = finding
    if not _quiet:
        print(finding, file=sys.stderr, flush=True)
