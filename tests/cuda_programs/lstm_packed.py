"""A text classifier with an LSTM over packed sequences."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Classifier(nn.Module):
    def __init__(self, vocabulary=20, width=8, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(
            width, hidden, num_layers=2, bidirectional=True, batch_first=True
        )
        self.out = nn.Linear(2 * hidden, 3)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        output, (hidden, cell) = self.lstm(packed)
        padded, _ = pad_packed_sequence(output, batch_first=True)
        return self.out(torch.cat([hidden[-2], hidden[-1]], 1)), padded


def train(device):
    torch.manual_seed(0)
    model = Classifier().to(device)
    if device == "cuda":
        model.lstm.flatten_parameters()
    lengths = torch.tensor([5, 3, 7])
    texts = pad_sequence(
        [torch.randint(1, 20, (n,)) for n in lengths], batch_first=True
    ).to(device)
    labels = torch.tensor([0, 1, 2]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        scores, padded = model(texts, lengths)
        assert padded.shape == (3, 7, 24)
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.testing.assert_close(train("cuda"), train("cpu"))
gru = nn.GRU(4, 6).cuda()
assert gru(torch.randn(5, 2, 4, device="cuda"))[0].shape == (5, 2, 6)
