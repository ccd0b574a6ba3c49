"""Which operators autocast treats, and how: as it does for CUDA."""

import pytest
import torch

# Those that only a build for CUDA has kernels for.
CUDA_ONLY = {"aten::cudnn_convolution", "aten::cudnn_convolution_transpose"}


def listed(key):
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = torch._C._dispatch_get_all_op_names()
    return {name for name in names if has_kernel(name, key)}


def test_the_operators_are_those_of_cuda():
    assert listed("AutocastPrivateUse1") == listed("AutocastCUDA") - CUDA_ONLY


def test_binary_cross_entropy_is_refused_as_on_cuda():
    x = torch.rand(4, device="openreg")
    operator = torch.ops.aten.binary_cross_entropy.default
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    with pytest.raises(RuntimeError, match="unsafe to autocast") as on_cuda:
        operator.redispatch(key, x, x)
    with torch.autocast("openreg"), pytest.raises(RuntimeError) as here:
        torch.nn.functional.binary_cross_entropy(x, x)
    assert str(here.value) == str(on_cuda.value)
    torch.nn.functional.binary_cross_entropy(x, x)  # welcome outside
