"""Every module of torch.nn: outputs, buffers and gradients."""

import pytest
import torch
from comparison import DEVICE, call, seed
from database import TURNS, weigh
from torch.func import functional_call
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_modules import module_db

pytestmark = pytest.mark.filterwarnings("ignore")


# On an accelerator a recurrent cell is one operator, which adds in another order.
# Softmin: its gradient rounds otherwise on one kind of processor (seen on an AMD EPYC).
CLOSE = {"nn.RNN", "nn.LSTM", "nn.GRU", "nn.LSTMCell", "nn.GRUCell", "nn.Softmin"}


def dtype_of(info):
    # The database has random numbers for these, in this dtype only.
    is_double = info.name.startswith("nn.FractionalMaxPool")
    return torch.float64 if is_double else torch.float32


def examine(info, training):
    verdict = {}
    seed(0)
    inputs = info.module_inputs_func(
        info, "cpu", dtype_of(info), requires_grad=True, training=training
    )
    for index, given in enumerate(inputs):
        made = given.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).train(training)
        if isinstance(module, LazyModuleMixin):
            module(*given.forward_input.args, **given.forward_input.kwargs)

        def run(state, *args, module=module, **kwargs):
            outputs = functional_call(module, state, args, kwargs)
            return outputs, [t for t in state.values() if not t.requires_grad]

        forward = given.forward_input
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        arguments = (state, *forward.args), forward.kwargs
        expected = call(run, arguments, "cpu")
        for turn in TURNS:
            found = call(run, arguments, DEVICE)
            how = {"close": info.name in CLOSE}
            weigh(verdict, found, expected, f"input {index}{turn}", how)
    return verdict


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("info", module_db, ids=lambda info: info.name)
def test_modules_give_what_they_give_on_the_cpu(info, training, settle):
    settle("modules", info.name, dtype_of(info), examine(info, training))
