"""The Python code that Inductor writes around kernels."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.codegen import common
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.cpu_device_op_overrides import CpuDeviceOpOverrides
from torch._inductor.codegen.wrapper import (
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
)
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.stream_utils import DEFAULT_STREAM, get_stream_name
from torch._inductor.utils import parallel_num_threads
from torch._inductor.virtualized import V

from torch_openreg import _names
from torch_openreg._device_name import NAME

from ._cpp_wrapper import OpenRegCppWrapper, name_devices, register_device_name


# Products of matrices, and how many arguments each has with `out`.
_PRODUCTS = {"mm": 3, "bmm": 3, "addmm": 6, "baddbmm": 6}
_FACTOR = re.compile(r"(?:alpha|beta)=(-?[\d.]+)")


@_names.overrides(PythonWrapperCodegen)
class _OpenRegCode:
    """What differs from the code for the CPU: where tensors are made, and how kernels
    are loaded."""

    _names_streams = False

    def write_header(self) -> None:
        super().write_header()
        self.imports.splice(
            "from torch_openreg.inductor._kernels "
            "import empty_strided_openreg, openreg_kernel, openreg_products"
        )

    def make_allocation(
        self,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        shape: Any,
        stride: Any,
        allocation_shape: Any = None,
        is_pinned: bool = False,
    ) -> str:
        line = super().make_allocation(
            name, device, dtype, shape, stride, allocation_shape, is_pinned
        )
        if device.type != "cpu" or device.index is None:
            return line
        line = _names.swap(line, "empty_strided_cpu(", "empty_strided_openreg(")
        return _names.swap(line, f", {dtype})", f", {dtype}, {device.index})")

    def define_kernel(
        self,
        kernel_name: str,
        kernel_body: str,
        metadata: str | None = None,
        gpu: bool = True,
        cpp_definition: str | None = None,
    ) -> None:
        body = _names.swap(
            kernel_body,
            "async_compile.cpp_pybinding(",
            f"openreg_kernel(async_compile, {kernel_name!r}, {parallel_num_threads()}, ",
        )
        super().define_kernel(kernel_name, body, metadata, gpu, cpp_definition)

    def _generate_extern_kernel_out_helper(
        self, kernel: str, out: str, out_view: str | None, args: list[str], *rest: Any
    ) -> None:
        """A product of matrices takes less time without the parser of torch."""
        name = kernel.removeprefix("extern_kernels.")
        values = [_FACTOR.sub(r"\1", text) for text in [*args, out_view or out]]
        if len(values) == _PRODUCTS.get(name) and not any("=" in v for v in values):
            self.writeline(f"openreg_products.{name}({', '.join(values)})")
            return
        super()._generate_extern_kernel_out_helper(kernel, out, out_view, args, *rest)

    def codegen_cuda_stream_enter(self, stream_idx: int) -> Any:
        """For a GPU the guard of the device names the streams; the CPU has none."""
        scheduler = V.graph.scheduler
        if not self._names_streams:
            self._names_streams = True
            self.imports.splice(
                "from torch._dynamo.graph_bytecode_inputs "
                "import get_external_object_by_index"
            )
            index = scheduler.current_device.index or 0
            self.writeline(f"{DEFAULT_STREAM} = torch.{NAME}.current_stream({index})")
            for number, place in scheduler.stream_idx_to_user_obj_idx.items():
                name = get_stream_name(number)
                self.writeline(f"{name} = get_external_object_by_index({place})")
        return super().codegen_cuda_stream_enter(stream_idx)

    def generate(self, is_inference: bool) -> Any:
        code, declarations = super().generate(is_inference)
        code.value = name_devices(code.value)
        return code, declarations


@_names.overrides(SubgraphPythonWrapperCodegen)
class OpenRegSubgraphWrapper(_OpenRegCode, SubgraphPythonWrapperCodegen):
    """The code of a graph within a graph: a branch, the body of a loop."""

    def write_header(self) -> None:
        """The outer graph has one."""


@_names.overrides(PythonWrapperCodegen)
class OpenRegWrapper(_OpenRegCode, PythonWrapperCodegen):
    """The code of a graph."""

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: Any,
        partition_signatures: Any = None,
    ) -> Any:
        if is_subgraph:
            return OpenRegSubgraphWrapper(
                subgraph_name, parent_wrapper, partition_signatures
            )
        return OpenRegWrapper()


@_names.overrides(CpuDeviceOpOverrides)
class OpenRegDeviceOpOverrides(CpuDeviceOpOverrides):
    def set_device(self, device_idx: int) -> str:
        return f"torch.{NAME}.set_device({device_idx})"

    def synchronize(self) -> str:
        return f"torch.{NAME}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.{NAME}._DeviceGuard({device_idx})"


def register(rules: CustomGraphModulePass) -> None:
    """Tell Inductor of the device, for its questions before lowering."""
    common.register_backend_for_device(
        NAME,
        CppScheduling,
        OpenRegWrapper,
        OpenRegCppWrapper,
        device_custom_pass=rules,
    )
    register_device_name()
    common.register_device_op_overrides(NAME, OpenRegDeviceOpOverrides())


def register_shadow(is_active: Callable[[], bool]) -> None:
    """Have the CPU's graphs written by our wrappers where they are shadows."""
    cpu = common.device_codegens["cpu"]
    cpu.wrapper_codegen = _choice(cpu.wrapper_codegen, OpenRegWrapper, is_active)
    cpu.cpp_wrapper_codegen = _choice(
        cpu.cpp_wrapper_codegen, OpenRegCppWrapper, is_active
    )


def _choice(plain: Any, ours: Any, is_active: Callable[[], bool]) -> Any:
    if getattr(plain, "is_choice", False):
        return plain

    class Choice(plain):
        is_choice = True

        @staticmethod
        def create(*args: Any, **kwargs: Any) -> Any:
            wrapper = ours if is_active() else plain
            return wrapper.create(*args, **kwargs)

    return Choice
