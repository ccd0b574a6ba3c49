"""Every public name of torch.backends.cuda, and those of cuDNN's switches."""

import torch
from walk import report, within

backend, cudnn = torch.backends.cuda, torch.backends.cudnn


def kept(switch, value):
    before = switch()
    return switch(value) != before and switch(before) == before


def set_and_reset(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    found = getattr(owner, name)
    setattr(owner, name, before)
    return found == value


def switched(enable, ask):
    enable(False)
    off = ask()
    enable(True)
    return off is False and ask() is True


def attention():
    q = torch.rand(1, 2, 8, 16, device="cuda", dtype=torch.float16)
    return backend.SDPAParams(q, q, q, None, 0.0, False, False)


def plans():
    cache = backend.cufft_plan_cache[1]
    cache.max_size = 10
    cache.clear()
    return (cache.size, cache.max_size) == (0, 10)


def is_unusable(name):
    """PyTorch's kernels for attention are a GPU's; the CPU's is taken."""
    return getattr(backend, name)(attention()) is False


def is_switch(kind):
    enable = getattr(backend, f"enable_{kind}_sdp")
    return switched(enable, getattr(backend, f"{kind}_sdp_enabled"))


WORKS = {
    "backend.is_built": backend.is_built,
    "backend.SDPAParams": lambda: attention().dropout == 0,
    "backend.allow_fp16_bf16_reduction_math_sdp": lambda: switched(
        backend.allow_fp16_bf16_reduction_math_sdp,
        backend.fp16_bf16_reduction_math_sdp_allowed,
    ),
    "backend.cuBLASModule": lambda: isinstance(backend.matmul, backend.cuBLASModule),
    "backend.cuFFTPlanCache": plans,
    "backend.cuFFTPlanCacheAttrContextProp": plans,
    "backend.cuFFTPlanCacheManager": lambda: isinstance(
        backend.cufft_plan_cache, backend.cuFFTPlanCacheManager
    ),
    "backend.cufft_plan_cache": plans,
    "backend.fp16_bf16_reduction_math_sdp_allowed": lambda: isinstance(
        backend.fp16_bf16_reduction_math_sdp_allowed(), bool
    ),
    "backend.is_ck_sdpa_available": lambda: backend.is_ck_sdpa_available() is False,
    "backend.is_flash_attention_available": lambda: (
        backend.is_flash_attention_available() is False
    ),
    "backend.matmul": lambda: set_and_reset(backend.matmul, "allow_tf32", True),
    "backend.preferred_blas_library": lambda: kept(
        backend.preferred_blas_library, "cublaslt"
    ),
    "backend.preferred_linalg_library": lambda: kept(
        backend.preferred_linalg_library, "magma"
    ),
    "backend.preferred_rocm_fa_library": lambda: (
        backend.preferred_rocm_fa_library().name == "Default"
    ),
    "backend.sdp_kernel": lambda: within(backend.sdp_kernel(), lambda: True),
    "cudnn.flags": lambda: within(
        cudnn.flags(benchmark=True), lambda: cudnn.benchmark is True
    ),
    "cudnn.is_acceptable": lambda: cudnn.is_acceptable(torch.ones(1, device="cuda")),
    "cudnn.is_available": cudnn.is_available,
    "cudnn.version": lambda: cudnn.version() > 90000,
}
for kind in ("cudnn", "efficient", "flash"):
    name = f"can_use_{kind}_attention"
    WORKS[f"backend.{name}"] = lambda name=name: is_unusable(name)
for kind in ("cudnn", "flash", "math", "mem_efficient"):
    for name in (f"enable_{kind}_sdp", f"{kind}_sdp_enabled"):
        WORKS[f"backend.{name}"] = lambda kind=kind: is_switch(kind)
for name in ("blas", "cublas", "cublaslt"):
    size = getattr(backend, f"{name}_workspace_size")
    WORKS[f"backend.{name}_workspace_size"] = lambda size=size: size() >= 0
for name, value in {
    "allow_tf32": False,
    "benchmark": True,
    "benchmark_limit": 3,
    "deterministic": True,
    "enabled": False,
}.items():
    WORKS[f"cudnn.{name}"] = lambda name=name, value=value: set_and_reset(
        cudnn, name, value
    )

report({f"backend.{name}" for name in backend.__all__}, WORKS)
