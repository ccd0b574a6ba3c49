"""Mixed precision: what autocast does around operators, and `torch.openreg.amp`.

Which operators it casts is in test_autocast_lists.py, the scaler of gradients in
test_grad_scaler.py.
"""

import inspect
import threading

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

HALF, BRAIN, FULL = torch.float16, torch.bfloat16, torch.float32


def autocast(**options):
    return torch.autocast("openreg", **options)


def ones(*shape, **options):
    return torch.ones(shape, device="openreg", **options)


def product_type():
    return (ones(2, 2) @ ones(2, 2)).dtype


class Casts(TorchDispatchMode):
    """Counts the casts that are run."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.count += operator is torch.ops.aten._to_copy.default
        return operator(*args, **kwargs or {})


# --- the state ----------------------------------------------------------------


def test_the_type_is_float16_by_default():
    assert torch.amp.is_autocast_available("openreg")
    assert torch.get_autocast_dtype("openreg") == HALF
    with autocast():
        assert product_type() == HALF


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_the_requested_type_is_used(dtype):
    with autocast(dtype=dtype):
        assert torch.get_autocast_dtype("openreg") == dtype
        assert product_type() == dtype
    assert torch.get_autocast_dtype("openreg") == HALF


def test_the_default_type_can_be_set():
    torch.set_autocast_dtype("openreg", BRAIN)
    try:
        with autocast():
            assert product_type() == BRAIN
    finally:
        torch.set_autocast_dtype("openreg", HALF)


def test_it_is_enabled_inside_alone_and_for_this_device_alone():
    assert not torch.is_autocast_enabled("openreg")
    with autocast():
        assert torch.is_autocast_enabled("openreg")
        assert not torch.is_autocast_enabled("cpu")
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == FULL
    assert not torch.is_autocast_enabled("openreg")
    assert product_type() == FULL


def test_regions_nest():
    with autocast(dtype=BRAIN):
        with autocast(enabled=False):
            assert not torch.is_autocast_enabled("openreg")
            assert product_type() == FULL
            with autocast():  # what is set, be it in a region around it
                assert product_type() == BRAIN
        with autocast(dtype=HALF), torch.autocast("cpu"):
            assert product_type() == HALF
        assert product_type() == BRAIN


def test_an_exception_leaves_the_region():
    with pytest.raises(ZeroDivisionError), autocast(dtype=BRAIN):
        1 / 0
    assert (product_type(), torch.get_autocast_dtype("openreg")) == (FULL, HALF)


@pytest.mark.parametrize("dtype", [FULL, torch.float64, torch.int32])
def test_an_unsupported_type_raises_a_warning_and_is_not_used(dtype):
    with pytest.warns(UserWarning, match="torch.float16, torch.bfloat16"):
        region = autocast(dtype=dtype)
    with region:
        assert not torch.is_autocast_enabled("openreg")


def test_a_function_can_be_decorated():
    assert autocast(dtype=BRAIN)(product_type)() == BRAIN


def test_each_thread_has_its_own_state():
    seen = []
    with autocast():
        thread = threading.Thread(target=lambda: seen.append(product_type()))
        thread.start()
        thread.join()
    assert seen == [FULL]


def test_double_and_integers_are_left_alone():
    with autocast():
        x = ones(2, 2, dtype=torch.float64)
        assert (x @ x).dtype == torch.float64
        assert x.int().sum().dtype == torch.int64


# --- the cache of casts -------------------------------------------------------


def casts_of_two_uses(weight, **options):
    with autocast(**options), Casts() as casts:
        x = ones(2, 2, dtype=HALF)
        x @ weight, x @ weight
    return casts.count


def test_a_parameter_is_cast_once_in_a_region():
    weight = nn.Parameter(ones(2, 2))
    assert casts_of_two_uses(weight) == 1
    assert casts_of_two_uses(weight) == 1  # nothing is left of the first region
    with autocast():
        assert casts_of_two_uses(weight) + casts_of_two_uses(weight) == 1
    assert casts_of_two_uses(weight, cache_enabled=False) == 2
    assert casts_of_two_uses(weight.detach()) == 2  # not a parameter


def test_the_cache_is_given_back_at_the_end_of_the_outermost_region():
    weight = nn.Parameter(ones(1024, 1024))
    before = torch.openreg.memory_allocated()
    with autocast():
        with autocast():
            weight @ weight
        assert torch.openreg.memory_allocated() == before + 2 * weight.numel()
    assert torch.openreg.memory_allocated() == before


def test_the_cast_of_a_changed_parameter_is_that_of_the_region():
    weight = nn.Parameter(ones(2, 2))
    with autocast():
        first = weight @ ones(2, 2)
        with torch.no_grad():
            weight.mul_(2)
        assert torch.equal(weight @ ones(2, 2), first)
        torch.clear_autocast_cache()
        assert torch.equal(weight @ ones(2, 2), first * 2)


# --- autograd -----------------------------------------------------------------


def test_gradients_have_the_parameters_type_and_the_casts_numbers():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(8, 8, device="openreg"))
    x = torch.randn(8, 8, device="openreg")
    with autocast():
        loss = (x @ weight).square().mean()
    loss.backward()  # outside, as it should be

    by_hand = weight.detach().requires_grad_()
    half = x.half() @ by_hand.half()
    half.float().square().mean().backward()  # pow is one of those in float32
    assert weight.grad.dtype == FULL
    assert torch.equal(weight.grad, by_hand.grad)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_checkpointed_is_computed_again_in_the_same_types(reentrant):
    layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8))
    layer.to("openreg")
    x = torch.randn(4, 8, device="openreg", requires_grad=True)
    types = []
    layer[0].register_forward_hook(lambda *call: types.append(call[-1].dtype))

    def gradients(run):
        torch.manual_seed(3)
        tensors = [x, *layer.parameters()]
        for tensor in tensors:
            tensor.grad = None
        with autocast(dtype=BRAIN):
            y = run(x)
        y.float().sum().backward()
        return [tensor.grad for tensor in tensors]

    def checkpointed(x):
        return checkpoint(layer, x, use_reentrant=reentrant)

    plain = gradients(layer)
    assert all(map(torch.equal, gradients(checkpointed), plain))
    assert types == [BRAIN] * 3


class Product(torch.autograd.Function):
    """Notes the types it computes in."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="openreg")
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        z = x @ y
        Product.types = [z.dtype]
        return z

    @staticmethod
    @torch.amp.custom_bwd(device_type="openreg")
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        Product.types.append((x.float() @ y.float()).dtype)
        return grad @ y.t(), x.t() @ grad


class FullProduct(Product):
    @staticmethod
    @torch.amp.custom_fwd(device_type="openreg", cast_inputs=FULL)
    def forward(ctx, x, y):
        assert not torch.is_autocast_enabled("openreg")
        return Product.forward.__wrapped__(ctx, x, y)


def test_a_custom_functions_backward_has_the_state_of_its_forward():
    x = ones(2, 2, requires_grad=True)
    with autocast(dtype=BRAIN):
        z = Product.apply(x, x)
    z.sum().backward()
    assert Product.types == [BRAIN, BRAIN]


def test_a_custom_function_can_ask_for_its_inputs_type():
    x = ones(2, 2, dtype=HALF, requires_grad=True)
    with autocast():
        z = FullProduct.apply(x, x)
    assert z.dtype == FULL
    z.sum().backward()
    assert Product.types == [FULL, FULL]
    assert x.grad.dtype == HALF


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_compute_in_the_lower_type(kind):
    layer = kind(4, 5, num_layers=2).to("openreg")
    with autocast():
        output, hidden = layer(torch.randn(3, 2, 4, device="openreg"))
    hidden = hidden if isinstance(hidden, tuple) else (hidden,)
    assert {t.dtype for t in (output, *hidden)} == {HALF}
    output.sum().backward()
    assert layer.weight_ih_l0.grad.dtype == FULL


# --- torch.openreg.amp --------------------------------------------------------


@pytest.mark.parametrize("name", torch.cuda.amp.__all__)
def test_the_module_has_the_names_and_signatures_of_cudas(name):
    here, on_cuda = (getattr(m.amp, name) for m in (torch.openreg, torch.cuda))
    assert inspect.signature(here) == inspect.signature(on_cuda)


def test_the_modules_can_be_imported_by_name():
    import torch.openreg.amp.common
    from torch.openreg.amp.autocast_mode import autocast
    from torch.openreg.amp.grad_scaler import GradScaler

    assert autocast is torch.openreg.amp.autocast
    assert GradScaler is torch.openreg.amp.GradScaler
    assert not torch.openreg.amp.common.amp_definitely_not_available()


def test_it_is_not_available_without_a_device(run_python):
    code = "import torch; print(torch.openreg.amp.amp_definitely_not_available())"
    assert run_python(code, OPENREG_DEVICE_COUNT="0") == "True"


def old(name, *arguments, **options):
    """Calls what has been replaced, and checks that it says by what."""
    with pytest.warns(FutureWarning) as warned:
        made = getattr(torch.openreg.amp, name)(*arguments, **options)
    assert f"use `torch.amp.{name}(" in str(warned[0].message)
    assert warned[0].filename == __file__
    return made


def test_the_old_autocast_does_what_the_new_one_does():
    with old("autocast"):
        assert product_type() == HALF
    with old("autocast", True, BRAIN, False):
        assert product_type() == BRAIN
        assert not torch.is_autocast_cache_enabled()
    with old("autocast", enabled=False):
        assert product_type() == FULL


def test_the_old_scaler_is_the_new_one_for_this_device():
    scaler = old("GradScaler", 8.0, growth_interval=3)
    assert isinstance(scaler, torch.amp.GradScaler)
    assert scaler.scale(ones()).tolist() == 8
    assert scaler.get_growth_interval() == 3


def test_the_old_decorators_are_the_new_ones_for_this_device():
    class Mean(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.mean()

        @staticmethod
        def backward(ctx, grad):
            return (grad.reshape(1, 1) @ ones(1, 4)).float()

    x = ones(1, 4, requires_grad=True)
    Mean.forward = old("custom_fwd", Mean.forward, cast_inputs=FULL)
    Mean.backward = old("custom_bwd", Mean.backward)
    with autocast():
        y = Mean.apply(x.half())
    assert y.dtype == FULL
    y.backward()
    assert x.grad.tolist() == [[1, 1, 1, 1]]
    assert callable(old("custom_fwd", cast_inputs=FULL))
