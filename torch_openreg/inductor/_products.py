"""Small products of matrices: Inductor makes sums of them on the CPU.

It decides that while it traces, before devices are replaced, in three decompositions
that ask for a device called "cpu". The device gets copies of them that ask for its name.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch._decomp.decompositions import pw_cast_for_opmath
from torch._inductor import decomposition

from torch_openreg import _names
from torch_openreg._device_name import NAME

PRODUCTS = ("addmm", "bmm", "mm")


def _rename(constant: Any) -> Any:
    if isinstance(constant, tuple):
        return tuple(map(_rename, constant))
    return NAME if constant == "cpu" else constant


def _ask_for_device(function: FunctionType) -> FunctionType:
    """A copy of the function with the name of the device where it says "cpu"."""
    code = function.__code__
    constants = _rename(code.co_consts)
    if constants == code.co_consts:
        raise _names.missing(f"the CPU in {function.__module__}.{function.__name__}()")
    return FunctionType(
        code.replace(co_consts=constants),
        function.__globals__,
        function.__name__,
        function.__defaults__,
    )


def _choose(original: Callable[..., Any]) -> Callable[..., Any]:
    inner = getattr(original, "__wrapped__", None)
    if inner is None:
        raise _names.missing(f"the cast around {original.__name__}()")
    ours = pw_cast_for_opmath(_ask_for_device(inner))

    @functools.wraps(original)
    def decompose(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        choice = ours if tensor.device.type == NAME else original
        return choice(tensor, *args, **kwargs)

    return decompose


def install() -> None:
    table = decomposition.decompositions
    for name in PRODUCTS:
        original = getattr(decomposition, name, None)
        overloads = [key for key, value in table.items() if value is original]
        if original is None or not overloads:
            raise _names.missing(f"the decomposition torch._inductor's {name}()")
        table.update(dict.fromkeys(overloads, _choose(original)))
