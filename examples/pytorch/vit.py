"""Trains a vision transformer to tell discs, squares, triangles and crosses in noise.

    python examples/pytorch/vit.py
    python -m netcl.torch examples/pytorch/vit.py

4,000 images of 32 x 32 pixels are drawn here, a fifth of them for the test. The model cuts an image into 64 patches of
4 x 4 and has 0.2 million parameters. After 300 steps of 64 images it names about 83 % of the test images right.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


def make_shapes(count):
    """Images (count, 1, 32, 32) with one shape each, and the number of the shape (count,)."""
    axis = torch.linspace(-1, 1, 32)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    center = torch.empty(count, 2, 1, 1).uniform_(-0.3, 0.3)
    size = torch.empty(count, 1, 1).uniform_(0.4, 0.6)
    x, y = (x - center[:, 0]) / size, (y - center[:, 1]) / size
    inside = torch.stack(
        [
            1 - torch.sqrt(x**2 + y**2),
            0.85 - torch.maximum(x.abs(), y.abs()),
            torch.minimum(0.7 - y, 0.5 * (y + 1) - x.abs()),
            0.3 - torch.minimum(x.abs(), y.abs()) - F.relu(torch.maximum(x.abs(), y.abs()) - 1),
        ]
    )
    labels = torch.randint(4, (count,))
    images = torch.sigmoid(15 * inside[labels, torch.arange(count)])
    return (images + 0.2 * torch.randn(images.shape)).unsqueeze(1), labels


class ViT(nn.Module):
    def __init__(self, patch=4, width=64, layers=4, heads=4, classes=4, dropout=0.0):
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, 1 + (32 // patch) ** 2, width))
        nn.init.trunc_normal_(self.positions, std=0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4000, help="images in all; a fifth of them is for the test")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    dataset = TensorDataset(*make_shapes(args.samples))
    train_set, test_set = random_split(dataset, [0.8, 0.2])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = ViT(layers=args.layers, dropout=args.dropout).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses = []
    model.train()
    while len(losses) < args.steps:
        for images, labels in train_loader:
            images, labels = images.to(args.device), labels.to(args.device)
            loss = criterion(model(images), labels)
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

    model.eval()
    correct = 0
    with torch.inference_mode():
        for images, labels in DataLoader(test_set, batch_size=200):
            correct += model(images.to(args.device)).argmax(dim=-1).cpu().eq(labels).sum().item()
    print(f"accuracy {100 * correct / len(test_set):.2f} %")


if __name__ == "__main__":
    main()
