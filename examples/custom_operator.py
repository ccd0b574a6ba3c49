"""Operators for openreg from Python: one of your own, and another abs.

    python examples/custom_operator.py

The same in C++ is in csrc/aten/OpenRegExtra.cpp.
"""

import warnings

import torch
from torch import Tensor


# docs:begin python-operator
# 1. The operator, with its kernel for openreg. It runs below autograd. Tensors
#    of other devices are refused: they have no kernel.
@torch.library.custom_op("demo::huber", mutates_args=(), device_types="openreg")
def huber(x: Tensor, delta: float) -> Tensor:
    size = x.abs()
    return torch.where(size < delta, x * x / 2, delta * (size - delta / 2))


# 2. The shape of the result without its values: for meta and fake tensors.
@huber.register_fake
def _(x, delta):
    return torch.empty_like(x)


# 3. The gradient, of any order, made of operators that have one.
def save(ctx, inputs, output):
    x, ctx.delta = inputs
    ctx.save_for_backward(x)


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x.clamp(-ctx.delta, ctx.delta), None


huber.register_autograd(backward, setup_context=save)
# docs:end python-operator


# docs:begin python-override
def count_calls_of_abs():
    """Puts a kernel before the one that openreg has for aten::abs.out, to which
    torch.abs() comes in the end. Returns the list of sizes seen, and the library
    to whose life the kernel is bound."""
    sizes = []
    original = torch.library.get_kernel("aten::abs.out", "PrivateUse1")

    def abs_out(keys, x, *, out):
        sizes.append(tuple(x.shape))
        return original.call_boxed(keys, x, out=out)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # PyTorch tells that a kernel is replaced, which is the aim here.
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        library.impl("abs.out", abs_out, "PrivateUse1", with_keyset=True)
    return sizes, library


# docs:end python-override


def main():
    x = torch.linspace(-2, 2, 5, dtype=torch.double, device="openreg")
    x.requires_grad_()
    y = huber(x, 1.0)
    y.sum().backward()
    print("huber  ", y.tolist())
    print("grad   ", x.grad.tolist())
    assert torch.autograd.gradcheck(lambda x: huber(x, 0.7), x)

    shape = huber(torch.empty(3, 4, device="meta"), 1.0).shape
    print("meta   ", tuple(shape))
    assert shape == (3, 4)

    try:
        huber(torch.ones(3), 1.0)
    except NotImplementedError as error:
        print("on cpu ", str(error).split(". ")[0])
    else:
        raise AssertionError("there should be no kernel for the CPU")

    sizes, library = count_calls_of_abs()
    assert torch.abs(x).tolist() == [2, 1, 0, 1, 2]
    huber(torch.ones(7, device="openreg"), 1.0)
    print("abs of ", sizes)
    assert sizes == [(5,), (7,)]


if __name__ == "__main__":
    main()
