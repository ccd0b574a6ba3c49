"""CUDA's libraries as ``torch._C`` has them: modules, and their switches."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from torch._C import _get_blas_preferred_backend, _get_linalg_preferred_backend

from torch_openreg import _C

from . import _refusals, _settings

#: What this CUDA says it is: the version that PyTorch's own wheels are built for.
CUDA_VERSION = "13.0"
CUDNN_VERSION = (9, 15, 1)
NCCL_VERSION = (2, 28, 9)


def _module(name: str, **members: Any) -> ModuleType:
    module = ModuleType(f"torch._C.{name}", "A part of CUDA, by this device.")
    vars(module).update(members)
    return module


# --- the runtime --------------------------------------------------------------


class cudaError(int):
    """A code that a function of the runtime returns; 0 is success."""

    success: "cudaError"
    value = property(int)


cudaError.success = cudaError(0)


def _coded(function: Callable[..., int]) -> Callable[..., cudaError]:
    """The function of our runtime, with CUDA's class for what it returns."""
    return lambda *args: cudaError(function(*args))


def _cudaMemGetInfo(device: int) -> tuple[int, int]:
    return _C._memGetInfo(device)


def _profiler() -> Any:
    from torch_openreg.openreg import profiler

    return profiler


def _cudaProfilerStart() -> cudaError:
    _profiler().start()
    return cudaError.success


def _cudaProfilerStop() -> cudaError:
    _profiler().stop()
    return cudaError.success


_runtime = _C._openregrt
cudart = _module(
    "_cudart",
    cudaError=cudaError,
    cudaGetErrorString=_runtime.orGetErrorString,
    cudaHostRegister=_coded(_runtime.orHostRegister),
    cudaHostUnregister=_coded(_runtime.orHostUnregister),
    cudaMemGetInfo=_cudaMemGetInfo,
    cudaProfilerStart=_cudaProfilerStart,
    cudaProfilerStop=_cudaProfilerStop,
    cudaStreamCreate=_coded(_runtime.orStreamCreate),
    cudaStreamDestroy=_coded(_runtime.orStreamDestroy),
)


# --- NVTX ---------------------------------------------------------------------


def _ranges() -> Any:
    from torch_openreg.openreg import nvtx

    return nvtx


def _rangePop() -> int:
    """NVTX forgives one pop too many, and returns a negative number."""
    try:
        return _ranges().range_pop()
    except RuntimeError:
        return -1


nvtx = _module(
    "_nvtx",
    markA=lambda message: _ranges().mark(message),
    rangeEnd=lambda handle: _ranges().range_end(handle),
    rangePop=_rangePop,
    rangePushA=lambda message: _ranges().range_push(message),
    rangeStartA=lambda message: _ranges().range_start(message),
    **_refusals.RANGES_OF_STREAMS,
)


# --- cuDNN, cuBLAS, NCCL ------------------------------------------------------

_major, _minor, _patch = CUDNN_VERSION
cudnn = _module(
    "_cudnn",
    BatchNormMode=SimpleNamespace(),
    getCompileVersion=lambda: CUDNN_VERSION,
    getRuntimeVersion=lambda: CUDNN_VERSION,
    getVersionInt=lambda: _major * 10000 + _minor * 100 + _patch,
    is_cuda=True,
)


class _Switch:
    """What PyTorch keeps for a library, and nothing here depends on."""

    def __init__(self, value: Any) -> None:
        self.first = self.value = value

    def get(self) -> Any:
        return self.value

    def set(self, value: Any) -> None:
        self.value = value

    def reset(self) -> None:
        self.value = self.first


def _nothing_to_clear() -> None:
    """The workspace of a kernel is memory of the host, and freed by it."""


def switches() -> dict[str, Any]:
    """What torch.backends.cuda and torch.backends.cudnn set and get."""
    workspace = _Switch(_settings.workspace_bytes())
    lt_workspace = _Switch(0)
    benchmark_limit = _Switch(10)
    empty_cache = _Switch(False)
    blas = _Switch(_get_blas_preferred_backend())
    linalg = _Switch(_get_linalg_preferred_backend())
    major, minor = CUDA_VERSION.split(".")
    return {
        "_cuda_clearCublasWorkspaces": _nothing_to_clear,
        "_cuda_getCompiledVersion": lambda: int(major) * 1000 + int(minor) * 10,
        "_cuda_getCublasLtWorkspaceSize": lt_workspace.get,
        "_cuda_getCublasWorkspaceSize": workspace.get,
        "_cuda_get_conv_benchmark_empty_cache": empty_cache.get,
        "_cuda_get_cudnn_benchmark_limit": benchmark_limit.get,
        "_cuda_resetCublasLtWorkspaceSize": lt_workspace.reset,
        "_cuda_resetCublasWorkspaceSize": workspace.reset,
        "_cuda_setCublasLtWorkspaceSize": lt_workspace.set,
        "_cuda_setCublasWorkspaceSize": workspace.set,
        "_cuda_set_cudnn_benchmark_limit": benchmark_limit.set,
        "_cudnn_set_conv_benchmark_empty_cache": empty_cache.set,
        "_get_blas_preferred_backend": blas.get,
        "_get_linalg_preferred_backend": linalg.get,
        "_nccl_version": lambda: (
            NCCL_VERSION[0] << 32 | NCCL_VERSION[1] << 16 | NCCL_VERSION[2]
        ),
        "_nccl_version_suffix": lambda: b"",
        "_set_blas_preferred_backend": blas.set,
        "_set_linalg_preferred_backend": linalg.set,
    }
