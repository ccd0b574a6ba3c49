"""Recurrent nets give the CPU's bits, forward and backward, in every form."""

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.utils.rnn import pack_sequence
from torch.utils._python_dispatch import TorchDispatchMode
from twins import check, numbers, on_both

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
}
FORMS = {
    "one layer": {},
    "no bias": {"bias": False},
    "layers": {"num_layers": 3},
    "both directions": {"bidirectional": True},
    "batch first": {"batch_first": True},
    "dropout": {"num_layers": 3, "dropout": 0.5},
    "all": {
        "num_layers": 2,
        "dropout": 0.3,
        "bidirectional": True,
        "batch_first": True,
        "bias": False,
    },
}
PROJECTED = {
    "projected": {"proj_size": 3},
    "projected, all": {"proj_size": 3, **FORMS["all"]},
}
CASES = [
    *itertools.product(KINDS, FORMS),
    *itertools.product(["lstm"], PROJECTED),
]


def net(kind, form, device, dtype=torch.float32):
    torch.manual_seed(1)
    made = KINDS[kind](5, 7, **{**FORMS, **PROJECTED}[form]).to(dtype).to(device)
    torch.manual_seed(2)
    return made


def tensors(result):
    output, hidden = result
    data = output.data if isinstance(output, nn.utils.rnn.PackedSequence) else output
    return [data, *(hidden if isinstance(hidden, tuple) else [hidden])]


def train(made, given, *hidden):
    """The results, and the gradients of all that has one."""
    results = tensors(made(given, *hidden))
    (sum((r.float() * r.float().cos()).sum() for r in results)).backward()
    return results, [p.grad for p in made.parameters()]


@pytest.fixture(autouse=True)
def one_thread():
    """A small product has one on the device, whatever the CPU uses."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# With dropout, two directions and layers at once, simple nets agree to rounding.
EXACT = [case for case in CASES if case not in (("tanh", "all"), ("relu", "all"))]


@pytest.mark.parametrize("kind, form", EXACT)
def test_training_gives_the_cpus_bits(kind, form):
    def case(device):
        given = numbers(6, 4, 5, device=device).requires_grad_()
        return *train(net(kind, form, device), given), given.grad

    check(case)


@pytest.mark.parametrize("kind, form", EXACT)
def test_packed_sequences_give_the_cpus_bits(kind, form):
    def case(device):
        given = [numbers(n, 5, device=device).requires_grad_() for n in (6, 6, 4, 1)]
        results = train(net(kind, form, device), pack_sequence(given))
        return *results, [g.grad for g in given]

    check(case)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_other_dtypes_give_the_cpus_bits(kind, dtype):
    def case(device):
        made, given = (
            net(kind, "layers", device, dtype),
            numbers(6, 4, 5, device=device).to(dtype),
        )
        with torch.no_grad():
            alone = tensors(made(given))
        return *train(made, given), alone

    check(case)


@pytest.mark.parametrize("kind", KINDS)
def test_a_given_state_gets_its_gradient(kind):
    def case(device):
        made = net(kind, "both directions", device)
        states = [numbers(2, 4, 7, device=device).requires_grad_() for _ in range(2)]
        hidden = tuple(states) if kind == "lstm" else states[0]
        train(made, numbers(6, 4, 5, device=device), hidden)
        return [s.grad for s in states[: 1 + (kind == "lstm")]]

    check(case)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_gives_the_cpus_bits(kind, mode):
    def case(device):
        with mode():
            made = net(kind, "dropout", device).eval()
            return tensors(made(numbers(6, 4, 5, device=device)))

    check(case)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_need_no_batch(kind):
    check(lambda d: train(net(kind, "layers", d), numbers(6, 5, device=d)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_may_be_empty(kind):
    check(lambda d: tensors(net(kind, "layers", d)(numbers(6, 0, 5, device=d))))


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_sequence_is_refused_as_on_the_cpu(kind):
    def case(device):
        with pytest.raises(RuntimeError) as error:
            net(kind, "one layer", device)(numbers(0, 4, 5, device=device))
        return str(error.value)

    check(case)


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_are_those_of_the_cpu(kind):
    def case(device):
        made = net(kind, "layers", device)
        given = numbers(6, 4, 5, device=device).requires_grad_()
        result = made(given)[0].square().sum()
        (first,) = torch.autograd.grad(result, given, create_graph=True)
        return torch.autograd.grad(first.square().sum(), list(made.parameters()))

    check(case)


# --- cells --------------------------------------------------------------------

CELLS = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
    "tanh": nn.RNNCell,
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", CELLS)
def test_cells_give_the_cpus_bits(kind, bias):
    def case(device):
        torch.manual_seed(1)
        cell = CELLS[kind](5, 7, bias=bias).to(device)
        state = None
        for step in numbers(3, 4, 5, device=device):
            state = cell(step, state)
        hidden = state[0] if kind == "lstm" else state
        hidden.square().sum().backward()
        return state, [p.grad for p in cell.parameters()]

    check(case)


def cell_arguments(device, gates, **shapes):
    sizes = {"input": (2, 3), "hx": (2, 4), "w_ih": (4 * gates, 3)}
    sizes |= {"w_hh": (4 * gates, 4), **shapes}
    return [numbers(*shape, device=device) for shape in sizes.values()]


@pytest.mark.parametrize(
    "shapes", [{"input": (2, 5)}, {"hx": (3, 4)}, {"hx": (2, 6)}], ids=str
)
def test_cells_refuse_wrong_sizes_with_the_cpus_words(shapes):
    def case(device):
        said = []
        for function, gates in ((torch.gru_cell, 3), (torch.lstm_cell, 4)):
            given, hidden, *weights = cell_arguments(device, gates, **shapes)
            hidden = [hidden, hidden] if gates == 4 else hidden
            with pytest.raises(RuntimeError) as error:
                function(given, hidden, *weights)
            said.append(str(error.value))
        return said

    check(case)


# --- how they run -------------------------------------------------------------


class Calls(TorchDispatchMode):
    """Notes the operators that are called below autograd."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "kind, form", [case for case in CASES if case != ("lstm", "projected, all")]
)
def test_the_same_operators_run_as_on_the_cpu(kind, form):
    def case(device):
        made, given = net(kind, form, device).eval(), numbers(6, 4, 5, device=device)
        with Calls() as calls:
            tensors(made(given))[0].sum().backward()
        return calls.names

    theirs, ours = on_both(case)
    assert ours == theirs
    one_dnn = kind == "lstm" and form not in PROJECTED
    assert ("aten.mkldnn_rnn_layer.default" in ours) == one_dnn


def test_onednn_is_left_out_if_it_is_switched_off():
    with torch.backends.mkldnn.flags(enabled=False):
        check(lambda d: train(net("lstm", "all", d), numbers(6, 4, 5, device=d)))


def test_layers_of_an_lstm_are_queued(hold):
    made, given = net("lstm", "layers", "openreg"), numbers(6, 4, 5, device="openreg")
    expected, _ = train(made, given)  # the first of its kind waits
    gate = hold(torch.openreg.current_stream())
    found, _ = train(made, given)
    gate.open()
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("kind", KINDS)
def test_torch_func_differentiates_each_sample(kind):
    made = net(kind, "one layer", "openreg")
    parameters = dict(made.named_parameters())
    samples = numbers(3, 6, 4, 5, device="openreg")

    def loss(parameters, sample):
        return functional_call(made, parameters, (sample,))[0].square().sum()

    found = vmap(grad(loss), in_dims=(None, 0))(parameters, samples)
    for index, sample in enumerate(samples):
        for name, expected in grad(loss)(parameters, sample).items():
            torch.testing.assert_close(found[name][index], expected)


@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_forward_derivatives_are_those_of_the_cpu(kind):
    """To the last bits: under torch.func nothing works in place, so that a kernel takes
    other numbers as a vector."""

    def case(device):
        made, given = net(kind, "layers", device), numbers(6, 4, 5, device=device)
        return jvp(lambda x: made(x)[0], (given,), (given.cos(),))

    for theirs, ours in zip(*on_both(case), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_autocast_computes_in_the_lower_type(kind, dtype):
    made, given = net(kind, "all", "openreg"), numbers(6, 4, 5, device="openreg")
    with torch.autocast("openreg", dtype):
        results, gradients = train(made, given)
        with torch.no_grad():
            results += tensors(made(given))
    assert {r.dtype for r in results} == {dtype}
    assert {g.dtype for g in gradients} == {torch.float32}


def test_an_lstm_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = net("lstm", "projected", "openreg")
        made(numbers(6, 4, 5, device="openreg"))
