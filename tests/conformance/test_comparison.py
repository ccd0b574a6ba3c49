"""The comparison that the other tests rest on sees what it is there to see."""

from dataclasses import replace

import inventory
import pytest
import torch
from comparison import DEVICE, DifferentError, call, compare, put

ONES = torch.ones(2, 3)


def changed(change):
    return change(ONES.to(DEVICE))


DIFFERENCES = {
    "device": (lambda x: x.cpu(), "device"),
    "dtype": (lambda x: x.double(), "dtype"),
    "layout": (lambda x: x.to_sparse(), "layout"),
    "shape": (lambda x: x[:1], "shape"),
    "strides": (lambda x: x.t().contiguous().t(), "strides"),
    "offset": (lambda x: torch.cat([x, x])[2:], "offset"),
    "neg bit": (lambda x: torch._neg_view(-x), "neg bit"),
    "requires_grad": (lambda x: x.requires_grad_(), "requires_grad"),
    "the last bit": (lambda x: x.nextafter(x * 2), "values differ in 6 of 6 places"),
    "one number": (lambda x: x.index_fill(0, x[0, :1].long(), 2), "3 of 6"),
    "NaN": (lambda x: x / 0 * 0, "values differ"),
    "an error": (lambda x: ValueError("no"), "ValueError: no instead of no error"),
}


@pytest.mark.parametrize("change, words", DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_difference_is_seen(change, words):
    compare([changed(lambda x: x.clone())], [ONES])
    with pytest.raises(DifferentError, match=words):
        compare([changed(change)], [ONES])


def test_zeros_differ_in_their_sign_and_numbers_of_nan_do_not():
    zero, nan = torch.zeros(1), torch.tensor([torch.nan])
    compare([(-nan).to(DEVICE)], [nan])
    with pytest.raises(DifferentError, match="sign of zero"):
        compare([(-zero).to(DEVICE)], [zero])


def test_rounding_is_accepted_only_where_asked_for():
    near = [(ONES + 1e-6).to(DEVICE)]
    compare(near, [ONES], close=True)
    with pytest.raises(DifferentError):
        compare(near, [ONES])
    with pytest.raises(DifferentError):
        compare([(ONES + 1e-2).to(DEVICE)], [ONES], close=True)


def test_errors_differ_in_type_and_words():
    compare(ValueError(f"on {DEVICE}"), ValueError("on cpu"))
    for error in (TypeError("on cpu"), ValueError("on cpus"), []):
        with pytest.raises(DifferentError):
            compare(error, ValueError("on cpu"))


def test_arguments_keep_their_strides_offsets_and_what_they_share():
    base = torch.arange(24.0).view(4, 6)
    given = base[1:, ::2].t(), base, base[:1].expand(3, 6)
    found = put(given, DEVICE)
    for ours, theirs in zip(found, given, strict=True):
        compare(ours, theirs)
    assert len({x.untyped_storage()._cdata for x in found}) == 1


@pytest.mark.parametrize("cotangents", ["random", "expanded"])
def test_gradients_and_their_errors_are_part_of_an_outcome(cotangents):
    x = torch.rand(3, requires_grad=True)
    outcome = call(torch.exp, ((x,), {}), DEVICE, cotangents)
    assert [t.device for t in (*outcome.forward, *outcome.backward)] == [DEVICE] * 2
    assert call(torch.exp, ((x.detach(),), {}), DEVICE).backward is None

    def fails_forward(x):
        return 1 / 0

    def fails_backward(x):
        y = x.exp()
        y.register_hook(fails_forward)
        return y

    assert isinstance(call(fails_forward, ((x,), {}), DEVICE).forward, ArithmeticError)
    outcome = call(fails_backward, ((x,), {}), DEVICE)
    assert isinstance(outcome.backward, ArithmeticError)
    assert len(outcome.forward) == 1


# --- the inventory ------------------------------------------------------------

ROW = inventory.Row("mul", "values differ", "because", dtypes=("float32",))


@pytest.fixture
def one_row(monkeypatch):
    monkeypatch.setattr(inventory, "ROWS", [ROW])


def judge(name="mul", dtype="float32", differences=("values differ a lot",), **options):
    verdict = {"forward": differences, "backward": ()}
    return inventory.judge("operators", name, dtype, verdict, **options)


def test_a_row_explains_its_own_operator_dtype_and_difference(one_row):
    assert judge() == {"forward": "expected", "backward": "passed"}
    assert judge(differences=()) == {"forward": "passed", "backward": "passed"}
    for other in ({"name": "mul2"}, {"dtype": "int64"}, {"differences": ["shape"]}):
        with pytest.raises(inventory.NotInTheInventoryError):
            judge(**other)


def test_a_row_that_explains_nothing_is_reported(one_row, monkeypatch):
    assert judge(strict=True)
    with pytest.raises(inventory.NotInTheInventoryError, match="passes, but is listed"):
        judge(differences=(), strict=True)
    monkeypatch.setattr(inventory, "ROWS", [replace(ROW, suite="operators")])
    with pytest.raises(inventory.NotInTheInventoryError, match="passes, but is listed"):
        judge(differences=())
