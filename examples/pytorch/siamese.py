"""Trains a siamese network to tell signs that it has never seen, from one image of each.

    python examples/pytorch/siamese.py
    python -m netcl.torch examples/pytorch/siamese.py

60 signs of 5 x 5 random dots are shifted, turned and made noisy, 20 images of 24 x 24 each. The network gets pairs
of images of 50 signs and learns to tell if both show the same sign. Of the other ten it sees one image each and names
the rest by the most similar: about 47 % right after 300 steps of 64 pairs, 10 % by chance.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, Dataset

SIGNS, HELD_OUT, IMAGES = 60, 10, 20


def make_signs():
    """Images (SIGNS, IMAGES, 1, 24, 24)."""
    dots = torch.where(torch.rand(SIGNS, 1, 5, 5) < 0.5, torch.ones(()), torch.zeros(()))
    signs = F.pad(F.interpolate(dots, scale_factor=4, mode="nearest"), (2, 2, 2, 2)).repeat_interleave(IMAGES, dim=0)
    count = len(signs)
    angle = 0.25 * torch.randn(count)
    cos, sin = torch.cos(angle), torch.sin(angle)
    shift = torch.empty(2, count).uniform_(-0.2, 0.2)
    theta = torch.stack([cos, -sin, shift[0], sin, cos, shift[1]], dim=1).view(count, 2, 3)
    images = F.grid_sample(signs, F.affine_grid(theta, signs.shape, align_corners=False), align_corners=False)
    return (images + 0.4 * torch.randn(images.shape)).view(SIGNS, IMAGES, 1, 24, 24)


class Pairs(Dataset):
    """Two images, and 1 if they show the same sign, which half of the pairs do, else 0."""

    def __init__(self, images, seed):
        self.images = images
        self.random = random.Random(seed)

    def __len__(self):
        return self.images.size(0) * self.images.size(1)

    def __getitem__(self, index):
        sign, number = divmod(index, IMAGES)
        same = self.random.random() < 0.5
        if same:
            other = self.images[sign, (number + self.random.randrange(1, IMAGES)) % IMAGES]
        else:
            other = self.images[(sign + self.random.randrange(1, len(self.images))) % len(self.images), number]
        return self.images[sign, number], other, int(same)


class Siamese(nn.Module):
    """The logit that two images (N, 1, 24, 24) show the same sign, by the distances of their features."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2),
            nn.PReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.PReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(48, 48, 3, padding=1),
            nn.PReLU(),
            nn.Flatten(),
            nn.Linear(48 * 6 * 6, 64),
            nn.Sigmoid(),
        )
        self.out = nn.Linear(64, 1)

    def forward(self, first, second):
        return self.out(torch.abs(self.features(first) - self.features(second))).squeeze(-1)


def one_shot_accuracy(model, images):
    """The part of images of new signs that are most similar to the first image of their own sign."""
    model.eval()
    with torch.no_grad():
        vectors = model.features(images.flatten(0, 1)).view(len(images), IMAGES, -1)
        distances = torch.abs(vectors[:, 1:].flatten(0, 1).unsqueeze(1) - vectors[:, 0])
        similar = model.out(distances).squeeze(-1)
    expected = torch.arange(len(images), device=images.device).repeat_interleave(IMAGES - 1)
    return (similar.argmax(dim=1) == expected).double().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    images = make_signs()
    loader = DataLoader(Pairs(images[HELD_OUT:], args.seed), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Siamese().to(args.device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = ExponentialLR(optimizer, gamma=0.995)
    losses = []
    while len(losses) < args.steps:
        model.train()
        for first, second, same in loader:
            logits = model(first.to(args.device), second.to(args.device))
            loss = criterion(logits, same.to(logits))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if len(losses) % 50 == 0:
                print(f"step {len(losses)}: loss {losses[-1]:.4f}")
            if len(losses) == args.steps:
                break
    if args.log:
        args.log.write_text("\n".join(map(repr, losses)) + "\n")
    print(f"accuracy {100 * one_shot_accuracy(model, images[:HELD_OUT].to(args.device)):.2f} %")


if __name__ == "__main__":
    main()
