"""Writes the table of operators whose tensors must all be on one device.

PyTorch's own table of operators, packaged in the wheel, says for which operators
CUDA's wrapper checks that and what the wrapper is called; its name stands in the
error message.

    python tools/generate_device_checks.py OUTPUT
"""

import sys
from pathlib import Path

import torchgen
from torchgen.api import cpp
from torchgen.gen import parse_native_yaml
from torchgen.model import DeviceCheckType, DispatchKey


def wrapper_suffix(function, structured):
    """What follows "wrapper_CUDA_" in the name of the function's wrapper."""
    name = cpp.name(function.func)
    overload = function.func.name.overload_name
    if structured:
        return f"{name}_{overload}" if overload else name
    return f"{overload}_{name}"


def rows():
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(
        str(folder / "native_functions.yaml"), str(folder / "tags.yaml")
    )
    cuda = parsed.backend_indices[DispatchKey.CUDA]
    for function in parsed.native_functions:
        structured = function.structured or function.structured_delegate is not None
        if function.device_check is DeviceCheckType.NoCheck:
            continue
        if structured or cuda.has_kernel(function):
            suffix = wrapper_suffix(function, structured)
            yield f'{{"aten::{function.func.name}", "{suffix}"}},'


def main(output):
    text = "".join(f"{row}\n" for row in sorted(rows()))
    path = Path(output)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
