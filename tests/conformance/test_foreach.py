"""Operators on lists of tensors, as optimizers use them."""

import pytest
import torch
from database import entries, examine, name_of
from torch.testing._internal import common_methods_invocations as invocations

pytestmark = pytest.mark.filterwarnings("ignore")

DATABASE = [
    *invocations.foreach_unary_op_db,
    *invocations.foreach_binary_op_db,
    *invocations.foreach_pointwise_op_db,
    *invocations.foreach_reduce_op_db,
    *invocations.foreach_other_op_db,
]


def in_place(op):
    def run(first, *args, **kwargs):
        given = [x.clone() for x in first]
        versions = [x._version for x in given]
        op.inplace_variant(given, *args, **kwargs)
        return given, [x._version - v for x, v in zip(given, versions)]

    return run


@pytest.mark.parametrize("op, dtype", entries(DATABASE))
def test_lists_give_what_they_give_on_the_cpu(op, dtype, settle):
    settle("foreach", name_of(op), dtype, examine(op, dtype, 4))


@pytest.mark.slow
@pytest.mark.parametrize("op, dtype", entries(DATABASE))
def test_lists_give_what_they_give_on_the_cpu_for_all_samples(op, dtype, settle):
    verdict = examine(op, dtype)
    settle("foreach, all samples", name_of(op), dtype, verdict, strict=True)


IN_PLACE = [op for op in DATABASE if op.inplace_variant]


@pytest.mark.parametrize("op, dtype", entries(IN_PLACE, [torch.float32, torch.int64]))
def test_lists_are_changed_in_place(op, dtype, settle):
    verdict = examine(op, dtype, 4, form=in_place)
    settle("foreach, in place", name_of(op), dtype, verdict)
