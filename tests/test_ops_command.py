"""`python -m torch_openreg.ops`: which tier serves an operator."""

import json
import subprocess
import sys

import pytest
import torch
from torch_openreg import ops


@pytest.mark.parametrize(
    ("name", "tier", "runs"),
    [
        ("aten::fill_.Scalar", "by hand", "queues"),
        ("aten::empty.memory_format", "by hand", "nothing to run"),
        ("aten::native_dropout", "by hand", "as its parts"),
        ("aten::_local_scalar_dense", "by hand", "waits"),
        ("aten::add.Tensor", "structured", "queues"),
        ("aten::hardtanh", "cached", "queues"),
        ("aten::nonzero", "waiting", "waits"),
        ("aten::randperm.generator_out", "boxed", "waits"),
        ("mkldnn_prepacked::conv2d_run", "fallback", "waits"),
        ("aten::matmul", "composite", "as its parts"),
        ("aten::zeros", "composite", "as its parts"),
        ("prims::fft_r2c", "composite", "as its parts"),
        ("c10d::barrier", "other", "unknown"),
    ],
)
def test_an_operator_has_its_tier(name, tier, runs):
    assert ops.describe(name) == (name, tier, runs)


def test_an_operator_that_cannot_run_is_not_listed():
    assert ops.describe("aten::_conv_depthwise2d") is None


def test_a_kernel_from_python_is_not_taken_for_ours():
    with torch.library._scoped_library("test_ops", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        assert ops.describe("test_ops::twice") is None
        library.impl("twice", lambda x: x * 2, "PrivateUse1")
        assert ops.describe("test_ops::twice")[1:] == ("other", "unknown")


def test_hand_written_operators_are_in_the_table_by_hand():
    assert {ops.describe(name).tier for name in ops.BY_HAND} == {"by hand"}


def test_every_tier_has_operators():
    found = {operator.tier for key in ops.KEYS for operator in ops.operators(key=key)}
    assert found == set(ops.ALL_TIERS)


# --- filters ------------------------------------------------------------------


def names(*arguments, **filters):
    return [found.name for found in ops.operators(*arguments, **filters)]


def test_a_pattern_is_part_of_a_name():
    assert names(["aten::nonzero", "aten::masked_select"]) == [
        "aten::masked_select",
        "aten::masked_select.out",
        "aten::masked_select_backward",
        "aten::nonzero",
        "aten::nonzero.out",
        "aten::nonzero_numpy",
        "aten::nonzero_static",
        "aten::nonzero_static.out",
    ]


def test_a_pattern_with_a_star_is_a_whole_name():
    assert names(["aten::nonzero*t"]) == [
        "aten::nonzero.out",
        "aten::nonzero_static.out",
    ]
    assert names(["nonzero*"]) == []


def test_filters_hold_together():
    found = ops.operators(["aten::"], tiers=["by hand", "waiting"], runs=["waits"])
    assert {(operator.tier, operator.runs) for operator in found} == {
        ("by hand", "waits"),
        ("waiting", "waits"),
    }
    every = set(ops.operators(["aten::"]))
    assert {op for op in every if op.tier in ("by hand", "waiting")} > set(found)


def test_other_kinds_of_tensors_have_kernels_of_their_own():
    nested = ops.describe("aten::randn_like", "NestedTensorPrivateUse1")
    assert nested == ("aten::randn_like", "composite", "as its parts")
    assert ops.describe("aten::as_strided", "NestedTensorPrivateUse1") is None
    assert "aten::as_strided" in names(["as_strided"])
    assert "aten::as_strided" not in names(["as_strided"], key=ops.KEYS[-1])


# --- the command ----------------------------------------------------------------


def printed(capsys, *arguments):
    assert ops.main(list(arguments)) == 0
    return capsys.readouterr().out


def test_the_command_prints_what_was_asked_for(capsys):
    text = printed(capsys, "--waits", "--tier", "waiting", "aten::nonzero")
    assert text.split() == ["aten::nonzero", "waiting", "waits"]


def test_columns_stand_below_each_other(capsys):
    first, second = printed(
        capsys, "aten::mse_loss", "aten::randn_like.out", "--tier", "cached",
        "--tier", "composite", "--queues",
    ).splitlines()  # fmt: skip
    assert first.index("cached") == second.index("cached")


def test_the_command_writes_json(capsys):
    rows = json.loads(printed(capsys, "aten::nonzero", "--queues", "--waits",
                              "--tier", "waiting", "--format", "json"))  # fmt: skip
    assert rows == [{"name": "aten::nonzero", "tier": "waiting", "runs": "waits"}]


def test_the_command_writes_markdown(capsys):
    text = printed(capsys, "--tier", "waiting", "--format=markdown", "aten::nonzero")
    assert text.splitlines() == [
        "| operator | tier | runs |",
        "| --- | --- | --- |",
        "| `aten::nonzero` | waiting | waits |",
    ]


def test_the_command_says_if_there_is_nothing(capsys):
    assert ops.main(["no_such_operator"]) == 1
    assert capsys.readouterr().err == "no such operator\n"


def test_a_reader_may_stop_early():
    command = [sys.executable, "-m", "torch_openreg.ops"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait(timeout=60) == 0
