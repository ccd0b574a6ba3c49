"""Subclasses of tensors and modes see the device as they see CUDA."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode
from twins import check, numbers

HERE = "openreg:1"


def reloaded(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False, **options)


# --- __torch_function__ -------------------------------------------------------


class Noted(torch.Tensor):
    """Keeps the names of what is called on it."""

    names = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.names.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs)


def test_a_subclass_stays_one_on_its_way():
    x = torch.ones(3).as_subclass(Noted)
    Noted.names.clear()
    y = x.openreg(1)
    assert Noted.names == ["openreg"]
    assert y.is_openreg
    for z in (y, y + 1, y.cpu(), y.to("openreg:0"), y[1:], torch.cat([y, y])):
        assert type(z) is Noted
    assert y.device == torch.device(HERE)


class Described(torch.Tensor):
    def new_empty(self, *args, **kwargs):  # deepcopy wants it
        return super().new_empty(*args, **kwargs).as_subclass(Described)


@pytest.mark.parametrize("again", [copy.deepcopy, reloaded])
def test_a_subclass_is_copied_with_what_it_has(again):
    x = torch.arange(3.0, device=HERE).as_subclass(Described)
    x.unit = "m"
    y = again(x)
    assert (type(y), y.unit, y.device) == (Described, "m", x.device)
    assert y.tolist() == [0, 1, 2]
    y[0] = 5
    assert x.tolist() == [0, 1, 2]


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


def test_a_function_mode_sees_the_devices_names():
    with Functions() as mode:
        x = torch.rand(3, device=HERE)
        assert x.openreg(0).device.index == 0
    assert mode.names[:2] == ["rand", "openreg"]


# --- __torch_dispatch__ -------------------------------------------------------


class Wrapper(torch.Tensor):
    """Has a tensor inside and no memory of its own."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=requires_grad,
        )

    def __init__(self, inner, requires_grad=False):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Wrapper(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(Wrapper, lambda x: x.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapper, function(*args, **kwargs))


def places(wrapper):
    return {str(wrapper.device), str(wrapper.inner.device)}


CALLS = {
    "operators": lambda x: (x @ x).softmax(-1) + x.sum(),
    "in place": lambda x: x.clone().mul_(2).zero_().add_(x),
    "views": lambda x: x.t()[1:].flatten(),
    "factories": lambda x: torch.zeros_like(x) + x.new_ones(3) * x,
    "many": lambda x: torch.stack([x, x, x.sin()]),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3),
    "convolution": lambda x: F.conv1d(x[None], x[None]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_wrapper_takes_part_in_operators(call):
    def case(device):
        x = Wrapper(numbers(3, 3, device=device), requires_grad=True)
        y = call(x)
        assert isinstance(y, Wrapper) and y.device == x.device
        y.sum().backward()
        assert isinstance(x.grad, Wrapper)
        return y.inner, x.grad.inner

    check(case)


def test_a_wrapper_moves_with_its_tensor():
    x = Wrapper(torch.ones(3))
    y = x.openreg(1)
    assert y.is_openreg and not x.is_openreg
    assert places(y) == places(copy.deepcopy(y)) == places(reloaded(y)) == {HERE}
    for elsewhere in (y.cpu(), reloaded(y, map_location="cpu")):
        assert places(elsewhere) == {"cpu"}
    assert places(y.to("openreg:0")) == {"openreg:0"}


def test_a_module_of_wrappers_goes_to_the_device():
    module = nn.Linear(3, 2)
    module.weight = nn.Parameter(Wrapper(module.weight.detach()))
    module.openreg(1)
    assert places(module.weight) == {HERE}
    assert places(module(torch.ones(1, 3, device=HERE))) == {HERE}
    module.load_state_dict(nn.Linear(3, 2).state_dict())
    assert places(module.weight) == {HERE}


def test_a_wrapper_may_say_on_which_device_it_is():
    class Elsewhere(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(
                cls, (2,), device="openreg:1", dispatch_device=True
            )

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            assert function is torch.ops.prim.device.default
            return torch.device("openreg:0")

    assert Elsewhere().device == torch.device("openreg:0")


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function).removeprefix("aten."))
        return function(*args, **(kwargs or {}))


def names(call):
    with Operators() as mode:
        call()
    return mode.names


def test_a_dispatch_mode_sees_the_operators_that_cuda_has():
    x = torch.ones(1, 1, 4, 4, device=HERE)
    weight = torch.ones(1, 1, 3, 3, device=HERE, requires_grad=True)
    assert names(lambda: torch.rand(3, device=HERE)) == ["rand.default"]
    assert names(x.cpu) == names(lambda: x.openreg(0)) == ["_to_copy.default"]
    assert names(x.sum().item) == ["_local_scalar_dense.default"]
    assert names(lambda: F.dropout(x, 0.5)) == ["native_dropout.default"]
    # and no operator of a backend's where CUDA has PyTorch's
    convolution = names(lambda: F.conv2d(x, weight).sum().backward())
    assert convolution[0] == "convolution.default"
    assert "convolution_backward.default" in convolution


def test_a_dispatch_mode_sees_backward_too():
    # which runs in another thread
    x = torch.ones(3, device=HERE, requires_grad=True)
    y = x.sin().sum()
    assert "cos.default" in names(y.backward)


def test_flops_are_counted():
    def case(device):
        layer, conv = nn.Linear(3, 2).to(device), nn.Conv1d(2, 2, 2).to(device)
        with FlopCounterMode(display=False) as counter:
            conv(layer(numbers(4, 3, device=device)).t()).sum().backward()
        return counter.get_total_flops()

    check(case)


def test_flops_of_attention_are_counted_as_cudas():
    q = numbers(2, 3, 4, 8, device=HERE).requires_grad_()

    def count(call):
        with FlopCounterMode(display=False) as counter:
            result = call()
        return counter.get_total_flops(), result

    forward, output = count(lambda: F.scaled_dot_product_attention(q, q, q))
    with sdpa_kernel(SDPBackend.MATH):
        products, _ = count(lambda: F.scaled_dot_product_attention(q, q, q))
    assert forward == products > 0
    # Two products forward; backward the first of them again, and four gradients.
    backward, _ = count(lambda: output.sum().backward())
    assert backward == forward / 2 * 5


def test_a_default_device_reaches_all_that_is_made():
    with torch.device(HERE):
        made = [torch.ones(2), torch.tensor([1]), torch.arange(3), nn.Linear(2, 2).bias]
        with torch.device("cpu"):
            assert torch.rand(1).device.type == "cpu"
        assert torch.ones(1, device="openreg:0").device.index == 0
    assert {str(x.device) for x in made} == {HERE}
    assert torch.ones(1).device.type == "cpu"
