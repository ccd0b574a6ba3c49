"""An operator allocates what it does on a GPU: its outputs, and no temporaries of
the CPU's kernel. Whole models are compared in test_golden.py."""

import pytest
import torch
import torch.nn.functional as F


@pytest.fixture
def allocations():
    """Counts the blocks that were allocated while a function ran."""

    def count(function, *arguments):
        torch.openreg.synchronize()
        before = torch.openreg.memory_stats()["allocation.all.allocated"]
        result = function(*arguments)
        torch.openreg.synchronize()
        after = torch.openreg.memory_stats()["allocation.all.allocated"]
        del result
        return after - before

    return count


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_allocates_its_output_and_a_mask(allocations, dtype):
    x = torch.ones(100_000, device="openreg", dtype=dtype)
    y, mask = torch.native_dropout(x, 0.5, True)
    assert allocations(torch.native_dropout, x, 0.5, True) == 2
    backward = torch.ops.aten.native_dropout_backward
    backward(y, mask, 2.0)
    assert allocations(backward, y, mask, 2.0) == 1


def test_the_gradient_of_a_table_copies_what_is_not_contiguous(allocations):
    ids = torch.zeros(1000, 2, dtype=torch.int64, device="openreg")
    grad = torch.ones(1000, 64, device="openreg")
    backward = torch.ops.aten.embedding_dense_backward
    narrow, column = grad[:, :32], ids[:, 0]
    for gradient, index, blocks in [
        (grad, column.contiguous(), 1),
        (narrow, column.contiguous(), 2),
        (narrow, column, 3),
    ]:
        expected = backward(gradient.cpu(), index.cpu(), 10, -1, False)
        for _ in range(2):  # the first call of a kind is another way
            got = backward(gradient, index, 10, -1, False)
            assert torch.equal(got.cpu(), expected)
        assert allocations(backward, gradient, index, 10, -1, False) == blocks


def test_the_first_call_of_a_kind_shows_no_temporaries(allocations):
    # A shape that no other test has: a kind is remembered.
    q, k, v = torch.randn(3, 3, 2, 171, 32, device="openreg", dtype=torch.bfloat16)
    assert allocations(F.scaled_dot_product_attention, q, k, v) == 2
    q.requires_grad_()
    y = F.scaled_dot_product_attention(q, k, v)
    grad = torch.ones_like(y)
    assert allocations(torch.autograd.grad, y, q, grad) == 3


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_reduced_loss_lies_in_memory_for_all_losses(reduction):
    x, y = torch.randn(2, 171, 37, device="openreg")
    expected = F.mse_loss(x.cpu(), y.cpu(), reduction=reduction)
    for _ in range(3):  # the first call of a kind is another way
        loss = F.mse_loss(x, y, reduction=reduction)
        assert loss.untyped_storage().nbytes() == x.nbytes
        assert torch.equal(loss.cpu(), expected)


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_random_operator_in_place_allocates_nothing(executor, run_python):
    code = """
import torch
def allocated():
    return torch.openreg.memory_stats()["allocation.all.allocated"]
x = torch.ones(1000, device="openreg")
for draw in (x.bernoulli_, x.uniform_, x.normal_, x.exponential_):
    for _ in range(3):  # the first call of a kind is another way
        before = allocated()
        draw()
        torch.openreg.synchronize()
        print(allocated() - before, end=" ")
"""
    told = run_python(code, OPENREG_EXECUTOR=executor)
    assert told.split() == ["0"] * 12
