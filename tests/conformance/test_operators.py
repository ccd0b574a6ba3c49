"""Every operator gives the CPU's results and gradients, to the bit."""

import pytest
import torch
from database import entries, examine, name_of, noncontiguous
from torch.testing._internal.common_methods_invocations import python_ref_db

pytestmark = pytest.mark.filterwarnings("ignore")


def few(dtype):
    return 6 if dtype == torch.float32 else 3


@pytest.mark.parametrize("op, dtype", entries())
def test_operators_give_what_they_give_on_the_cpu(op, dtype, settle):
    settle("operators", name_of(op), dtype, examine(op, dtype, few(dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("op, dtype", entries())
def test_operators_give_what_they_give_on_the_cpu_for_all_samples(op, dtype, settle):
    verdict = examine(op, dtype)
    settle("operators, all samples", name_of(op), dtype, verdict, strict=True)


@pytest.mark.parametrize("op, dtype", entries(dtypes=[torch.float32]))
def test_arguments_need_not_be_contiguous(op, dtype, settle):
    verdict = examine(op, dtype, 2, change=noncontiguous)
    settle("operators, non-contiguous", name_of(op), dtype, verdict)


@pytest.mark.parametrize(
    "op, dtype", entries(python_ref_db, [torch.float32, torch.int64])
)
def test_operators_in_terms_of_others_give_what_they_give_on_the_cpu(op, dtype, settle):
    """PyTorch's operators as written in Python, which compilers start from."""
    settle("references", name_of(op), dtype, examine(op, dtype, 2, grad=False))
