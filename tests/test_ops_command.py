"""`python -m torch_openreg.ops`: which tier serves an operator."""

import pytest
from torch_openreg import ops


@pytest.mark.parametrize(
    ("name", "tier", "runs"),
    [
        ("aten::fill_.Scalar", "by hand", "queues"),
        ("aten::empty.memory_format", "by hand", "nothing to run"),
        ("aten::native_dropout", "by hand", "as its parts"),
        ("aten::_local_scalar_dense", "by hand", "waits"),
        ("aten::add.Tensor", "structured", "queues"),
        ("aten::relu", "remembered", "queues"),
        ("aten::nonzero", "typed", "waits"),
        ("aten::multinomial", "boxed", "waits"),
        ("aten::matmul", "composite", "as its parts"),
    ],
)
def test_operators_are_told_apart(name, tier, runs):
    assert ops.describe(name) == (name, tier, runs)


def test_an_operator_that_cannot_run_is_not_listed():
    assert ops.describe("aten::_conv_depthwise2d") is None


def test_the_command_prints_what_was_asked_for(capsys):
    assert ops.main(["--waits", "--tier", "typed", "aten::nonzero"]) == 0
    assert capsys.readouterr().out.split() == ["aten::nonzero", "typed", "waits"]


def test_the_command_says_if_there_is_nothing(capsys):
    assert ops.main(["no_such_operator"]) == 1
    assert capsys.readouterr().err == "no such operator\n"


def test_what_is_said_of_operators_written_by_hand_is_said_of_such():
    assert {ops.describe(name).tier for name in ops.BY_HAND} == {"by hand"}
