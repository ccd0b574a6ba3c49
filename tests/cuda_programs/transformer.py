"""A language model: nn.Transformer, AdamW, a schedule, gradient accumulation."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, tokens=50, width=16):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, dim_feedforward=32, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), x.device)
        return self.head(self.encoder(self.embed(x), mask=mask, is_causal=True))


def train(device):
    torch.manual_seed(0)
    model = LanguageModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=device == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=4)
    text = torch.randint(50, (8, 13)).to(device)
    losses = []
    for _ in range(4):
        total = 0.0
        for part in text.split(4):
            scores = model(part[:, :-1])
            loss = nn.functional.cross_entropy(
                scores.flatten(0, 1), part[:, 1:].flatten()
            )
            (loss / 2).backward()
            total += loss.item() / 2
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total)
    return losses


torch.testing.assert_close(train("cuda"), train("cpu"), rtol=1e-4, atol=1e-5)
