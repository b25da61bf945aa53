"""Trains a U-Net to mark the discs of noisy images that show discs and squares.

    python examples/pytorch/unet.py
    python -m netcl.torch examples/pytorch/unet.py

512 images of 48 x 48 pixels with two discs and two squares each are drawn here, an eighth of them for the test. The
network has 0.1 million parameters. After 200 steps of 16 images the marked pixels of the test images overlap the true
ones by about 0.87 (intersection over union).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE = 48


def make_scenes(count):
    """Images and masks, both (count, 1, SIDE, SIDE): the masks are 1 in discs, else 0."""
    axis = torch.linspace(-1, 1, SIDE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    center = torch.empty(count, 4, 2, 1, 1).uniform_(-0.7, 0.7)
    size = torch.empty(count, 4, 1, 1).uniform_(0.25, 0.45)
    dx, dy = x - center[:, :, 0], y - center[:, :, 1]
    round_, square = torch.sqrt(dx**2 + dy**2), torch.maximum(dx.abs(), dy.abs())
    discs = torch.any(round_[:, :2] < size[:, :2], dim=1, keepdim=True)
    squares = torch.any(square[:, 2:] < 0.9 * size[:, 2:], dim=1, keepdim=True)
    one, zero = torch.ones(()), torch.zeros(())
    images = torch.where(discs | squares, one, zero)
    return images + 0.2 * torch.randn(images.shape), torch.where(discs, one, zero)


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels, out_channels):
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
            nn.GroupNorm(4, out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.GroupNorm(4, out_channels),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1 = DoubleConv(1, width)
        self.down2 = DoubleConv(width, 2 * width)
        self.bottom = DoubleConv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.conv2 = DoubleConv(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.conv1 = DoubleConv(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x1 = self.down1(x)
        x2 = self.down2(F.max_pool2d(x1, 2))
        x = self.bottom(F.max_pool2d(x2, 2))
        x = self.conv2(torch.cat([self.up2(x), x2], dim=1))
        x = self.conv1(torch.cat([self.up1(x), x1], dim=1))
        return self.head(x)


def dice_loss(logits, masks):
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--samples", type=int, default=512, help="images in all; an eighth of them is for the test")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    images, masks = make_scenes(args.samples)
    held_out = args.samples // 8
    train_set = TensorDataset(images[held_out:], masks[held_out:])
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = UNet(args.width).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=args.steps, power=0.9)
    losses = []
    while len(losses) < args.steps:
        for x, y in loader:
            x, y = x.to(args.device), y.to(args.device)
            optimizer.zero_grad()
            logits = model(x)
            loss = F.binary_cross_entropy_with_logits(logits, y) + dice_loss(logits, y)
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

    with torch.no_grad():
        marked = model(images[:held_out].to(args.device)).cpu() > 0
    true = masks[:held_out] > 0.5
    print(f"overlap {((marked & true).sum() / (marked | true).sum()).item():.3f}")


if __name__ == "__main__":
    main()
