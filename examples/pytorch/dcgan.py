"""Trains a deep convolutional generative adversarial network on images of rings, and draws one of its images as text.

    python examples/pytorch/dcgan.py
    python -m netcl.torch examples/pytorch/dcgan.py

4,096 rings of random place, radius and width, 32 x 32 pixels between -1 and 1. The generator has 0.2 million
parameters, the discriminator 0.1 million. After 400 steps of 64 images the generator draws parts of rings; a
discriminator that knows nothing has a loss of 1.39.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


def make_rings(count):
    """Images (count, 1, 32, 32) between -1 and 1."""
    axis = torch.linspace(-1, 1, 32)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    center = torch.empty(count, 2, 1, 1).uniform_(-0.3, 0.3)
    radius = torch.empty(count, 1, 1).uniform_(0.3, 0.6)
    width = torch.empty(count, 1, 1).uniform_(0.08, 0.16)
    distance = torch.sqrt((x - center[:, 0]) ** 2 + (y - center[:, 1]) ** 2)
    return (2 * torch.exp(-(((distance - radius) / width) ** 2)) - 1).unsqueeze(1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self, nz, ngf):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),  # 4 x 4
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),  # 8 x 8
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),  # 16 x 16
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),  # 32 x 32
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self, ndf):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),  # 16 x 16
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),  # 8 x 8
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False),  # 4 x 4
            nn.BatchNorm2d(ndf * 4),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False),
        )

    def forward(self, images):
        return self.main(images).view(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--nz", type=int, default=32, help="size of the latent vector")
    parser.add_argument("--ngf", type=int, default=24)
    parser.add_argument("--ndf", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the two losses of each step: discriminator, generator")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    loader = DataLoader(TensorDataset(make_rings(args.samples)), args.batch_size, shuffle=True, drop_last=True)
    netG = Generator(args.nz, args.ngf).to(device)
    netG.apply(weights_init)
    netD = Discriminator(args.ndf).to(device)
    netD.apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = optim.Adam(netD.parameters(), lr=args.lr, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=args.lr, betas=(0.5, 0.999))
    fixed_noise = torch.randn(1, args.nz, 1, 1).to(device)
    ones = torch.ones(args.batch_size, device=device)
    zeros = torch.zeros(args.batch_size, device=device)

    losses = []
    while len(losses) < args.steps:
        for (real,) in loader:
            # The discriminator: log(D(x)) + log(1 - D(G(z))) grows.
            netD.zero_grad()
            loss_real = criterion(netD(real.to(device)), ones)
            loss_real.backward()
            noise = torch.randn(args.batch_size, args.nz, 1, 1).to(device)
            fake = netG(noise)
            loss_fake = criterion(netD(fake.detach()), zeros)
            loss_fake.backward()
            optimizerD.step()

            # The generator: log(D(G(z))) grows.
            netG.zero_grad()
            loss_g = criterion(netD(fake), ones)
            loss_g.backward()
            optimizerG.step()

            losses.append((loss_real.item() + loss_fake.item(), loss_g.item()))
            if len(losses) % 50 == 0:
                print(f"step {len(losses)}: loss_D {losses[-1][0]:.4f} loss_G {losses[-1][1]:.4f}")
            if len(losses) == args.steps:
                break
    if args.log:
        args.log.write_text("".join(f"{loss_d} {loss_g}\n" for loss_d, loss_g in losses))

    netG.eval()
    with torch.no_grad():
        image = (netG(fixed_noise)[0, 0].cpu() + 1) / 2
    for row in image[::2].tolist():
        print("".join(" .:-=+*#%@"[min(9, int(10 * value))] for value in row))
    print(f"loss_D {losses[-1][0]:.4f} loss_G {losses[-1][1]:.4f}")


if __name__ == "__main__":
    main()
