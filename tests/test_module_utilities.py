"""What PyTorch has for modules and batches does on the device what it does on the
CPU, bit by bit."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.nn import utils
from torch.nn.utils import parametrizations, parametrize, prune, rnn
from torch.utils.data import DataLoader, default_collate
from twins import DEVICE, check, numbers

pytestmark = pytest.mark.filterwarnings("ignore")


def linear(device, size=3):
    torch.manual_seed(0)
    return nn.Linear(3, size).to(device)


def backward(module):
    """The result of a module and the gradients of its parameters."""
    result = module(numbers(4, 3, device=next(module.parameters()).device))
    result.square().sum().backward()
    return result, [p.grad for p in module.parameters()]


# --- gradients ----------------------------------------------------------------


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_gradients_are_clipped(norm, foreach):
    def case(device):
        module = linear(device)
        backward(module)
        total = utils.clip_grad_norm_(module.parameters(), 0.5, norm, foreach=foreach)
        clipped = [p.grad.clone() for p in module.parameters()]
        utils.clip_grad_value_(module.parameters(), 0.1, foreach=foreach)
        values = [p.grad for p in module.parameters()]
        return (
            total,
            clipped,
            values,
            utils.get_total_norm(values, norm, foreach=foreach),
        )

    check(case)


def test_gradients_of_two_devices_have_one_norm():
    parameters = [nn.Parameter(torch.ones(8, device=f"openreg:{i}")) for i in (0, 1)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    total = utils.clip_grad_norm_(parameters, 1.0)
    assert total.item() == pytest.approx(4)
    assert total.device == torch.device("openreg:0")
    for parameter in parameters:
        assert parameter.grad.tolist() == pytest.approx([0.25] * 8, rel=1e-5)


def test_a_norm_that_is_not_a_number_is_refused():
    parameter = nn.Parameter(torch.ones(2, device=DEVICE))
    parameter.grad = torch.tensor([1.0, float("nan")], device=DEVICE)
    with pytest.raises(RuntimeError, match="total norm of order 2.0 .* is non-finite"):
        utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)
    assert parameter.grad[0].item() == 1


def test_hooks_are_called_in_order():
    def case(device):
        module, calls = linear(device), []

        def note(name):
            return lambda *args: calls.append(name)

        module.register_forward_pre_hook(note("before"))
        module.register_forward_hook(note("after"))
        module.register_full_backward_pre_hook(note("before backward"))
        module.register_full_backward_hook(note("after backward"))
        module.weight.register_post_accumulate_grad_hook(note("accumulated"))
        register_multi_grad_hook(list(module.parameters()), note("all"))
        x = numbers(4, 3, device=device).requires_grad_()
        x.register_hook(lambda gradient: gradient * 2)
        y = module(x)
        y.grad_fn.register_hook(note("node"))
        y.sum().backward()
        return sorted(calls[2:]), calls[:2], x.grad

    check(case)


# --- parameters ---------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()


def symmetric(module):
    parametrize.register_parametrization(module, "weight", Symmetric())
    return module


PARAMETRIZED = {
    "symmetric": symmetric,
    "weight norm": parametrizations.weight_norm,
    "weight norm, old": utils.weight_norm,
    "spectral norm": parametrizations.spectral_norm,
    "spectral norm, old": utils.spectral_norm,
    **{
        f"orthogonal, {name}": lambda module, name=name: parametrizations.orthogonal(
            module, orthogonal_map=name
        )
        for name in ("matrix_exp", "cayley", "householder")
    },
}


@pytest.mark.parametrize("make", PARAMETRIZED.values(), ids=PARAMETRIZED)
@pytest.mark.parametrize("first", ["moved", "parametrized"])
def test_parametrized_weights_are_computed_on_the_device(make, first):
    def case(device):
        torch.manual_seed(0)
        module = nn.Linear(3, 3)
        if first == "moved":
            # The vectors of a norm are drawn on the device.
            module = module.to(device)
            torch.manual_seed(1)
            return backward(make(module))
        torch.manual_seed(1)
        return backward(make(module).to(device))

    check(case)


def test_a_parametrization_is_removed_copied_and_cached():
    def case(device):
        module = symmetric(linear(device))
        with parametrize.cached():
            assert module.weight is module.weight
        again, results = copy.deepcopy(module), backward(module)
        assert again.weight is not module.weight
        parametrize.remove_parametrizations(module, "weight")
        return module.weight, results, list(again.parameters())

    check(case)


def test_weights_are_pruned():
    def case(device):
        module = linear(device)
        torch.manual_seed(1)
        prune.l1_unstructured(module, "weight", 0.5)
        prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
        prune.random_unstructured(module, "bias", 1)
        results = backward(module)
        prune.remove(module, "weight")
        return module.weight, results

    check(case)


def test_parameters_become_a_vector_and_back():
    def case(device):
        module = linear(device)
        vector = utils.parameters_to_vector(module.parameters())
        utils.vector_to_parameters(vector * 2, module.parameters())
        return vector, list(module.parameters())

    check(case)
    scattered = [torch.ones(1, device=f"openreg:{i}") for i in range(2)]
    with pytest.raises(TypeError, match="two parameters on different devices"):
        utils.parameters_to_vector(scattered)


def test_norms_are_folded_into_layers():
    def case(device):
        torch.manual_seed(0)
        conv, norm = nn.Conv2d(1, 2, 3).to(device), nn.BatchNorm2d(2).to(device)
        linear_norm = nn.BatchNorm1d(3).to(device).eval()
        return [
            utils.fuse_conv_bn_eval(conv.eval(), norm.eval())(
                numbers(1, 1, 4, 4, device=device)
            ),
            utils.fuse_linear_bn_eval(linear(device).eval(), linear_norm)(
                numbers(4, 3, device=device)
            ),
        ]

    check(case)


# --- without memory at first --------------------------------------------------


def fill(module):
    for index, parameter in enumerate(module.parameters()):
        nn.init.constant_(parameter, index + 1)
    return module


UNFILLED = {
    "to_empty": lambda: nn.Linear(3, 2, device="meta").to_empty(device=DEVICE),
    "skip_init": lambda: utils.skip_init(nn.Linear, 3, 2, device=DEVICE),
    "assign": lambda: _assigned(nn.Linear(3, 2, device="meta")),
}


def _assigned(module):
    state = nn.Linear(3, 2, device=DEVICE).state_dict()
    module.load_state_dict(state, assign=True)
    return module


@pytest.mark.parametrize("swap", [False, True], ids=["replaced", "swapped"])
@pytest.mark.parametrize("make", UNFILLED.values(), ids=UNFILLED)
def test_a_module_gets_its_memory_later(make, swap):
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        module = fill(make())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert module.weight.device == torch.device(DEVICE)
    assert isinstance(module.weight, nn.Parameter)
    x = torch.ones(1, 3, device=DEVICE)
    assert module(x).tolist() == [[5, 5]]


def test_what_has_no_memory_cannot_be_copied():
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        nn.Linear(3, 2, device="meta").openreg()


def test_two_tensors_are_swapped():
    x, y = torch.zeros(3, device="openreg:1"), torch.ones(2)
    names = x, y
    torch.utils.swap_tensors(x, y)
    assert (x is names[0], x.device.type, x.tolist()) == (True, "cpu", [1, 1])
    assert (y.device, y.tolist()) == (torch.device("openreg:1"), [0, 0, 0])


def test_a_parameter_stays_the_same_object_if_asked_to():
    module = nn.Linear(3, 2)
    weight = module.weight
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.openreg()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert module.weight is weight
    assert weight.device == torch.device(DEVICE)


# --- batches ------------------------------------------------------------------


def test_sequences_are_packed_padded_and_run():
    def case(device):
        torch.manual_seed(0)
        sequences = [numbers(n, 2, device=device) for n in (3, 1, 2)]
        padded = rnn.pad_sequence(sequences, batch_first=True, padding_value=-1)
        packed = rnn.pack_sequence(sequences, enforce_sorted=False)
        again, lengths = rnn.pad_packed_sequence(packed)
        assert lengths.tolist() == [3, 1, 2] and lengths.device.type == "cpu"
        unpadded = rnn.unpad_sequence(again, lengths)
        return padded, packed.data, unpadded, rnn.unpack_sequence(packed)

    check(case)


def test_a_recurrent_net_takes_packed_sequences():
    torch.manual_seed(0)
    net, results = nn.GRU(2, 3), []
    for device in ("cpu", DEVICE):
        sequences = [numbers(n, 2, device=device) for n in (3, 1)]
        packed, last = net.to(device)(rnn.pack_sequence(sequences))
        results.append([packed.data.cpu(), last.cpu()])
    torch.testing.assert_close(*results)  # cells add in another order


def test_batches_are_collated_where_their_parts_are():
    def case(device):
        items = [{"x": numbers(2, device=device), "pair": (i, 2.0)} for i in range(3)]
        batch = default_collate(items)
        return batch["x"], [part.tolist() for part in batch["pair"]]

    check(case)


def test_batches_are_pinned_for_the_device():
    items = [{"x": torch.ones(2)}] * 4
    for batch in DataLoader(items, batch_size=2, pin_memory=True):
        assert batch["x"].is_pinned()
        assert batch["x"].openreg(non_blocking=True).tolist() == [[1, 1], [1, 1]]
