"""torch.compile on openreg: Inductor's C++ kernels, run by the device.

Just before Inductor lowers a graph, its openreg tensors become tensors of
``cpu:<index>`` (_shadow.py): Inductor then takes every decision as for the CPU. The
code that it writes (_wrapper.py) allocates openreg tensors, and its kernels
(_kernels.py) enter their streams as all others do.

Loaded when ``torch._inductor.compile_fx`` is; see docs/compile.md.
"""

from . import _packages, _products, _recordable, _rules, _shadow, _wrapper


def _install() -> None:
    _wrapper.register(_rules.Rules())
    _shadow.install()
    _products.install()
    _recordable.install()
    _packages.install()


_install()
