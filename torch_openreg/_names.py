"""Names of PyTorch that have no hook, and that are replaced here."""

import functools
from collections.abc import Callable
from typing import Any

import torch


def missing(name: str) -> ImportError:
    """What is raised where PyTorch has no such name."""
    return ImportError(
        f"torch_openreg cannot compile with torch {torch.__version__}: {name} is no "
        "more. Use the version of torch that this package was built for, run without "
        "torch.compile, or choose torch.compile(backend='aot_eager')."
    )


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put ``make(original)`` in the place of ``owner.name``."""
    original = getattr(owner, name, None)
    if original is None:
        where = getattr(owner, "__qualname__", getattr(owner, "__name__", owner))
        module = getattr(owner, "__module__", None)
        raise missing(f"{f'{module}.' if module else ''}{where}.{name}")
    setattr(owner, name, functools.wraps(original)(make(original)))
