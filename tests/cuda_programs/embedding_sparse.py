"""Recommendations: EmbeddingBag with sparse gradients, scatter and index operators."""

import torch
from torch import nn


def train(device):
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(100, 8, mode="sum", sparse=True).to(device)
    users = nn.Embedding(30, 8).to(device)
    sparse = torch.optim.SparseAdam(bag.parameters(), lr=0.01)
    dense = torch.optim.Adagrad(users.parameters(), lr=0.1)
    items = torch.randint(100, (24,)).to(device)
    offsets = torch.arange(0, 24, 4).to(device)
    user = torch.randint(30, (6,)).to(device)
    rating = torch.rand(6).to(device)
    losses = []
    for _ in range(4):
        score = (bag(items, offsets) * users(user)).sum(1).sigmoid()
        loss = nn.functional.binary_cross_entropy(score, rating)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        assert bag.weight.grad.is_sparse
        sparse.step()
        dense.step()
        losses.append(loss.item())
    counts = torch.zeros(100, device=device).scatter_add_(
        0, items, torch.ones(24, device=device)
    )
    top = torch.topk(counts, 3).values.tolist()
    unique, inverse = torch.unique(items, return_inverse=True)
    assert torch.equal(unique[inverse], items)
    return losses, top


torch.testing.assert_close(train("cuda"), train("cpu"))
