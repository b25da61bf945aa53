"""Fits a surface to noisy samples, some of them wrong, with L-BFGS, all samples at each step.

    python examples/pytorch/lbfgs.py
    python -m netcl.torch examples/pytorch/lbfgs.py

The surface is sin(3 x) cos(2 y) exp(-x y / 2) on a square. 512 samples have noise of 0.05, and one of ten is an
outlier; the loss is linear in large differences. The model is linear in 200 random Fourier features. Each step makes up
to five iterations with a line search by the strong Wolfe conditions. After 50 steps the root mean square error, without
the noise, is about 0.03.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class RandomFeatures(nn.Module):
    """A linear function of cosines of random frequencies and phases."""

    def __init__(self, count, scale=1.5):
        super().__init__()
        self.register_buffer("frequencies", scale * torch.randn(2, count))
        self.register_buffer("phases", torch.empty(count).uniform_(-math.pi, math.pi))
        self.linear = nn.Linear(count, 1)

    def forward(self, points):
        return self.linear(torch.cos(points @ self.frequencies + self.phases)).squeeze(1)


def surface(points):
    x, y = points.unbind(dim=1)
    return torch.sin(3 * x) * torch.cos(2 * y) * torch.exp(-x * y / 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    points = torch.empty(args.samples, 2).uniform_(-1.5, 1.5)
    values = surface(points) + args.noise * torch.randn(args.samples)
    values = torch.where(torch.rand(args.samples) < 0.1, 2 * torch.randn(args.samples), values)
    points, values = points.to(args.device), values.to(args.device)
    model = RandomFeatures(args.features).to(args.device)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1, max_iter=5, history_size=10, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        penalty = sum(p.pow(2).sum() for p in model.parameters())
        loss = F.smooth_l1_loss(model(points), values, beta=0.1) + args.weight_decay * penalty
        loss.backward()
        return loss

    losses = []
    for step in range(args.steps):
        losses.append(optimizer.step(closure).item())
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}: loss {losses[-1]:.6f}")
    if args.log:
        args.log.write_text("\n".join(map(repr, losses)) + "\n")

    points = torch.empty(1000, 2).uniform_(-1.5, 1.5).to(args.device)
    with torch.no_grad():
        error = torch.sqrt(torch.mean((model(points) - surface(points)) ** 2))
    print(f"error {error.item():.4f}")


if __name__ == "__main__":
    main()
