"""Names of PyTorch that have no hook, and that are replaced here."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch


def _refusal(reason: str) -> ImportError:
    return ImportError(
        f"torch_openreg cannot compile with torch {torch.__version__}: {reason}. Use "
        "the version of torch that this package was built for, run without "
        "torch.compile, or choose torch.compile(backend='aot_eager')."
    )


def missing(name: str) -> ImportError:
    """What is raised where PyTorch has no such name."""
    return _refusal(f"{name} is no more")


@contextlib.contextmanager
def say_the_way_out() -> Iterator[None]:
    """For modules that import names of PyTorch: says the same if one is missing."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        if "torch_openreg cannot compile" in str(error):
            raise
        raise _refusal(str(error)) from error


def _full_name(owner: Any, name: str) -> str:
    where = getattr(owner, "__qualname__", getattr(owner, "__name__", owner))
    module = getattr(owner, "__module__", None)
    return f"{f'{module}.' if module else ''}{where}.{name}"


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put ``make(original)`` in the place of ``owner.name``."""
    original = getattr(owner, name, None)
    if original is None:
        raise missing(_full_name(owner, name))
    setattr(owner, name, functools.wraps(original)(make(original)))


def require(owner: Any, *names: str) -> None:
    """For names that are read, or set, without being replaced."""
    for name in names:
        if not hasattr(owner, name):
            raise missing(_full_name(type(owner), name))


def overrides(base: type) -> Callable[[type], type]:
    """Marks a class whose methods PyTorch calls in the place of those of ``base``: one
    that it no longer knows would never be called, and nobody would notice."""

    def check(cls: type) -> type:
        for name, value in vars(cls).items():
            is_method = callable(value) or isinstance(value, staticmethod | classmethod)
            if is_method and not hasattr(base, name):
                raise missing(_full_name(base, name))
        return cls

    return check


def swap(text: str, old: str, new: str) -> str:
    """Generated code with ``new`` in the place of ``old``, which must be there."""
    if old not in text:
        raise missing(f"{old!r} in the code that Inductor writes")
    return text.replace(old, new, 1)
