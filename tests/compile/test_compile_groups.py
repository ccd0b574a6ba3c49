"""Groups of operators, compiled for the device, give what they give compiled for the
CPU."""

import pytest
import torch
from compiled import check_compiled
from groups import GROUPS

pytestmark = pytest.mark.filterwarnings("ignore")

# A second or three each; the others wait for `make test-full`.
QUICK = "argmax_of_a_transposed_view", "mutation"
QUICK_DYNAMIC = ("softmax",)

# PyTorch's formula for a norm's gradient keeps float32 between the passes, as on CUDA,
# but rounds what it keeps for CPU tensors of half precision.
CLOSE = ("float16",)

# Numbers in the place of tensors, and sizes that depend on data.
SETTINGS = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


def cases(dynamic):
    for name in GROUPS:
        quick = name in (QUICK_DYNAMIC if dynamic else QUICK)
        marks = () if quick else pytest.mark.slow
        yield pytest.param(name, marks=marks, id=name)


@pytest.mark.parametrize("name", cases(dynamic=False))
def test_a_group_of_operators_is_compiled(name):
    function, make_inputs = GROUPS[name]
    with torch._dynamo.config.patch(SETTINGS):
        check_compiled(function, make_inputs(6), close=name in CLOSE, dynamic=False)


@pytest.mark.parametrize("name", cases(dynamic=True))
def test_a_group_of_operators_is_compiled_for_all_sizes(name):
    function, make_inputs = GROUPS[name]
    with torch._dynamo.config.patch(SETTINGS):
        calls = make_inputs(6), make_inputs(9)
        check_compiled(function, *calls, close=name in CLOSE, dynamic=True)
