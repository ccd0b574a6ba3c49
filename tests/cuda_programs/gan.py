"""A generative adversarial network: two models, two optimizers."""

import torch
from torch import nn


def train(device):
    torch.manual_seed(999)
    make_noise = torch.Generator().manual_seed(1)
    netG = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    ).to(device)
    netD = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4),
        nn.Flatten(0),
    ).to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    losses = []
    for _ in range(3):
        real = torch.rand(8, 1, 8, 8, generator=make_noise).to(device)
        netD.zero_grad()
        label = torch.full((8,), 1.0, device=device)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(8, 8, 1, 1, generator=make_noise).to(device))
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        losses += [(errD_real + errD_fake).item(), errG.item()]
    return losses


torch.testing.assert_close(train("cuda"), train("cpu"), rtol=1e-4, atol=1e-5)
