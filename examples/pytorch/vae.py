"""Trains a variational autoencoder on images of ellipses, and draws two of its samples as text.

    python examples/pytorch/vae.py
    python -m netcl.torch examples/pytorch/vae.py

3,000 ellipses of random place, size and angle, 24 x 24 pixels, are described by five numbers each, and the latent space
has six. The loss is the negative evidence lower bound, in nats per image: about 405 at the first step, 45 after 600
steps of 128 images.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE = 24


def make_ellipses(count):
    """Images (count, SIDE, SIDE) between 0 and 1."""
    axis = torch.linspace(-1, 1, SIDE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    center = torch.empty(count, 2, 1, 1).uniform_(-0.4, 0.4)
    radius = torch.empty(count, 2, 1, 1).uniform_(0.2, 0.5)
    angle = torch.empty(count, 1, 1).uniform_(0, math.pi)
    dx, dy = x - center[:, 0], y - center[:, 1]
    u = (torch.cos(angle) * dx + torch.sin(angle) * dy) / radius[:, 0]
    v = (torch.cos(angle) * dy - torch.sin(angle) * dx) / radius[:, 1]
    return torch.sigmoid(12 * (1 - torch.sqrt(u**2 + v**2)))


class VAE(nn.Module):
    def __init__(self, hidden=400, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, SIDE * SIDE), nn.Unflatten(1, (SIDE, SIDE))
        )

    def forward(self, x):
        h = self.encoder(x)
        mean, logvar = self.mean(h), self.logvar(h)
        noise = torch.randn(mean.shape).to(mean.device)
        return self.decoder(mean + noise * torch.exp(0.5 * logvar)), mean, logvar


def loss_function(logits, x, mean, logvar):
    """The reconstruction's binary cross entropy and the divergence from the unit normal distribution, per image."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
    return (reconstruction + divergence) / len(x)


def show(image):
    for row in image[::2].tolist():
        print("".join(" .:-=+*#%@"[min(9, int(10 * value))] for value in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    loader = DataLoader(TensorDataset(make_ellipses(args.samples)), args.batch_size, shuffle=True, drop_last=True)
    model = VAE().to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    losses = []
    while len(losses) < args.steps:
        for (x,) in loader:
            x = x.to(args.device)
            optimizer.zero_grad()
            logits, mean, logvar = model(x)
            loss = loss_function(logits, x, mean, logvar)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 100 == 0:
                print(f"step {len(losses)}: loss {losses[-1]:.2f}")
            if len(losses) == args.steps:
                break
    if args.log:
        args.log.write_text("\n".join(map(repr, losses)) + "\n")

    with torch.no_grad():
        for image in torch.sigmoid(model.decoder(torch.randn(2, 6).to(args.device))).cpu():
            show(image)
    print(f"loss {sum(losses[-20:]) / len(losses[-20:]):.2f}")


if __name__ == "__main__":
    main()
