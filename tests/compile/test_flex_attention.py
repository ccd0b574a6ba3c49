"""flex_attention under torch.compile: by the CPU's kernel where nothing is differentiated,
and as dense attention elsewhere."""

import functools

import pytest
import torch
from compiled import DEVICE, check_compiled, check_eager, check_same, compile, move, run
from groups import numbers
from torch.nn import functional as F

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


def causal(batch, head, q, k):
    return q >= k


def closer(score, batch, head, q, k):
    return score - (q - k).abs() * 0.1


def flexible(score):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def function(q, k, v):
        mask = create_block_mask(causal, 1, 1, 64, 64, device=q.device)
        return flex_attention(q, k, v, score_mod=score, block_mask=mask)

    return function


@pytest.mark.parametrize("score", [None, closer])
def test_flex_attention_is_compiled(score):
    heads = [numbers(1, 2, 64, 16) for _ in "qkv"]
    with torch.no_grad():
        check_compiled(flexible(score), heads, dynamic=False)


@pytest.mark.parametrize("score", [None, closer])
def test_flex_attention_is_differentiated(score):
    heads = [numbers(1, 2, 64, 16, grad=True) for _ in "qkv"]
    check_eager(flexible(score), *heads, dynamic=False)


def test_flex_attention_differentiates_as_attention_does():
    heads = [numbers(1, 2, 64, 16, grad=True) for _ in "qkv"]
    plain = functools.partial(F.scaled_dot_product_attention, is_causal=True)
    ours, theirs = run(flexible(None), heads, DEVICE), run(plain, heads, "cpu")
    check_same(ours[2], theirs[2], close=True)


def test_flex_attention_tells_what_it_has_summed():
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    def function(q, k, v):
        return flex_attention(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True))

    q, k, v = move([numbers(1, 2, 8, 16) for _ in "qkv"], DEVICE)
    output, told = compile(function)(q, k, v)
    scores = q @ k.mT / 4
    torch.testing.assert_close(output, scores.softmax(-1) @ v)
    torch.testing.assert_close(told.lse, scores.logsumexp(-1))
    torch.testing.assert_close(told.max_scores, scores.amax(-1))


def test_a_bias_that_is_learned_gets_gradients():
    """It is indexed in the function of scores by tensors and by numbers."""
    from torch.nn.attention.flex_attention import flex_attention

    distance = torch.arange(8)[:, None] - torch.arange(8) + 7

    def flexible(q, table):
        def score(score, batch, head, i, j):
            return score + table[head, i - j + 7] * table[0][3] + table[1, 2]

        return flex_attention(q, q, q, score_mod=score)

    def dense(q, table):
        bias = table[:, distance] * table[0, 3] + table[1, 2]
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias[None])

    inputs = numbers(1, 2, 8, 16, grad=True), numbers(2, 15, grad=True)
    theirs = run(dense, inputs, "cpu")
    for function in (flexible, compile(flexible)):
        for our, their in zip(run(function, inputs, DEVICE), theirs, strict=True):
            check_same(our, their, close=True)
