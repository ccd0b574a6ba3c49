"""What a CUDA made of software cannot do, and what to do instead."""

from collections.abc import Callable
from typing import Any, NoReturn


def refusal(what: str, way_out: str) -> RuntimeError:
    return RuntimeError(
        f"{what} cannot work on this CUDA, which is software (OPENREG_AS=cuda): "
        f"{way_out}"
    )


def refuse(what: str, way_out: str) -> Callable[..., NoReturn]:
    """A function that is always refused."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(what, way_out)

    return call


CODE_FOR_A_GPU = (
    "it is code for a GPU. Write it with operators of PyTorch, which run anywhere, or "
    "try this part on a GPU"
)
_TUNABLE = refuse(
    "TunableOp", "it measures a GPU's kernels. Leave torch.cuda.tunable off"
)


def _turn_tunable(on: bool) -> None:
    """It is off, and may be turned off."""
    if on:
        _TUNABLE()


_NCCL = refuse(
    "a communicator of torch.cuda.nccl",
    "use torch.distributed with the backend nccl, which works",
)
_HANDLE = refuse(
    "a handle of cuBLAS or cuSOLVER",
    "no such library is behind it. Use torch's own operators",
)
_STORAGE = refuse(
    "torch.cuda.gds",
    "GPUDirect reads files into a GPU's memory. Use torch.load(), or torch.from_file() "
    "and Tensor.to()",
)
_PART = refuse(
    "a green context",
    "it is a part of a GPU's processors. Use streams, with priorities",
)

#: Of torch._C._CUDAGraph.
CONDITIONAL_NODE = refuse(
    "a conditional node of a graph",
    "record both branches, and choose with torch.where()",
)

#: Of torch._C._nvtx: what a stream begins and ends when it gets there.
RANGES_OF_STREAMS: dict[str, Any] = dict.fromkeys(
    ("deviceRangeStart", "deviceRangeEnd"),
    refuse(
        "a range of NVTX in a stream",
        "ranges are the host's. Use torch.cuda.nvtx.range()",
    ),
)


class _CUDAGreenContext:
    create = max_workqueue_concurrency = staticmethod(_PART)


#: Names of torch._C whose call is an error.
NAMES: dict[str, Any] = {
    "_CUDAGreenContext": _CUDAGreenContext,
    "_cuda_cudaHostAllocator": refuse(
        "the address of CUDA's host allocator", "use Tensor.pin_memory()"
    ),
    "_cuda_getCurrentBlasHandle": _HANDLE,
    "_cuda_getCurrentSolverHandle": _HANDLE,
    "_cuda_jiterator_compile_and_launch_kernel": refuse(
        "torch.cuda.jiterator", CODE_FOR_A_GPU
    ),
    "_cuda_getMemoryMetadata": lambda: "",
    "_cuda_setMemoryMetadata": refuse(
        "torch.cuda.memory._set_memory_metadata()",
        "snapshots have frames and no other marks. Leave it out",
    ),
    "_cuda_record_untuned_is_enabled": lambda: False,
    "_cuda_record_untuned_enable": _turn_tunable,
    "_cuda_tunableop_enable": _turn_tunable,
    "_cuda_tunableop_is_enabled": lambda: False,
    "_cuda_tunableop_tuning_enable": _turn_tunable,
    "_cuda_tunableop_tuning_is_enabled": lambda: False,
    **{
        f"_cuda_{name}": _TUNABLE
        for name in (
            "tunableop_get_filename",
            "tunableop_get_max_tuning_duration",
            "tunableop_get_max_tuning_iterations",
            "tunableop_get_results",
            "tunableop_get_rotating_buffer_size",
            "tunableop_get_validators",
            "tunableop_read_file",
            "tunableop_set_filename",
            "tunableop_set_max_tuning_duration",
            "tunableop_set_max_tuning_iterations",
            "tunableop_set_numerical_check_tolerances",
            "tunableop_set_rotating_buffer_size",
        )
    },
    **{
        f"_gds_{name}": _STORAGE
        for name in (
            "deregister_buffer",
            "deregister_handle",
            "load_storage",
            "register_buffer",
            "register_handle",
            "save_storage",
        )
    },
    "_nccl_init_rank": _NCCL,
    "_nccl_unique_id": _NCCL,
}
