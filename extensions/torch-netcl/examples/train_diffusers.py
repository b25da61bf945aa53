"""Trains a small UNet of diffusers to draw bright squares, and samples by a DDPM pipeline.

python extensions/torch-netcl/examples/train_diffusers.py --device ocl
"""

from __future__ import annotations

import argparse

import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from torch import nn


def squares(count: int) -> torch.Tensor:
    """Returns images of -1 with a square of 1."""
    images = -torch.ones(count, 1, 8, 8)
    for image, (row, column) in zip(images, torch.randint(1, 4, (count, 2)).tolist()):
        image[:, row : row + 4, column : column + 4] = 1
    return images


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.manual_seed(0)
    down, up = ("DownBlock2D", "AttnDownBlock2D"), ("AttnUpBlock2D", "UpBlock2D")
    width = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 4, "attention_head_dim": 8}
    model = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, down_block_types=down, up_block_types=up, **width
    ).to(options.device)
    scheduler = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(options.steps):
        images = squares(16).to(options.device)
        noise, times = torch.randn_like(images), torch.randint(0, 100, (16,), device=options.device)
        loss = nn.functional.mse_loss(model(scheduler.add_noise(images, noise, times), times).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    pipeline = DDPMPipeline(model, scheduler).to(options.device)
    pipeline.set_progress_bar_config(disable=True)
    drawn = pipeline(batch_size=2, num_inference_steps=20, output_type="np").images
    first, last = (sum(part) / len(part) for part in (losses[:10], losses[-10:]))
    seen = f"{drawn.shape[0]} images of {drawn.min():.2f} to {drawn.max():.2f}"
    print(f"{model.device}: loss {first:.3f} to {last:.3f}; {seen}")


if __name__ == "__main__":
    main()
