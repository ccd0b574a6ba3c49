"""A policy gradient: small steps, sampling, .item() and .cpu().numpy() in the loop."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(543)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def episode():
    state, rewards, log_probs = torch.randn(4), [], []
    for _ in range(10):
        choice = Categorical(logits=policy(state.unsqueeze(0).to(device)))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        reward = 1.0 if action.item() == int(state[0] > 0) else 0.0
        rewards.append(reward)
        state = torch.randn(4)
    return rewards, log_probs


history = []
for _ in range(60):
    rewards, log_probs = episode()
    returns = torch.tensor(rewards, device=device)
    returns = returns - 0.5
    loss = -(torch.cat(log_probs) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(sum(rewards))
assert sum(history[-20:]) > sum(history[:20]), history
assert policy(torch.zeros(1, 4, device=device)).detach().cpu().numpy().shape == (1, 2)
try:
    policy(torch.zeros(1, 4, device=device)).detach().numpy()
except TypeError as error:
    assert "Use Tensor.cpu() to copy the tensor to host memory first" in str(error)
else:
    raise AssertionError("numpy() of a tensor on a device")
