"""The sanitizer for a whole program, as the environment says."""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig

from torch_openreg import sanitizer

EXIT_CODE = 86


def start() -> None:
    """Called when the device is loaded and OPENREG_SANITIZE is set."""
    # OPENREG_SANITIZE: checks to run the program with, separated by commas: race,
    # memory, init, leak, or all. Default: none.
    checks = os.environ.get("OPENREG_SANITIZE", "")
    # OPENREG_SANITIZE_SUPPRESSIONS: a file that names findings to leave out. Default:
    # none.
    suppressions = os.environ.get("OPENREG_SANITIZE_SUPPRESSIONS") or None
    try:
        sanitizer.enable(checks, suppressions=suppressions)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"OPENREG_SANITIZE={checks}: {error}")
    # Registered first, so it runs after the program's own.
    atexit.register(_finish, os.getpid())


def _drop_globals() -> None:
    """Let the program's own modules go, as Python does later: what they still hold has
    not leaked."""
    libraries = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib")})
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or (
            file
            and not file.startswith(libraries)
            and name.split(".")[0] != "torch_openreg"
        ):
            for variable in [v for v in vars(module) if not v.startswith("__")]:
                vars(module)[variable] = None


def _finish(process: int) -> None:
    if os.getpid() != process:
        return  # a child that was forked: its parent reports
    if "leak" in sanitizer.enabled_checks():
        _drop_globals()
        sanitizer.report_leaks()
    sanitizer.disable()
    found = sanitizer.findings()
    # OPENREG_SANITIZE_REPORT: a file for the findings as JSON; a page for each is written
    # next to it. Default: they are only printed.
    if path := os.environ.get("OPENREG_SANITIZE_REPORT"):
        sanitizer.save(path)
    if found:
        print(
            f"openreg sanitizer: {len(found)} finding{'s' * (len(found) != 1)}",
            file=sys.stderr,
        )
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_CODE)  # what the program returned does not count
