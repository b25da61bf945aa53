"""Trains a classifier by Lightning's Trainer.

python extensions/torch-netcl/examples/train_lightning.py --device ocl
"""

from __future__ import annotations

import argparse

import lightning as pl
import torch
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AnyDevice(CPUAccelerator):
    """An accelerator that takes the device of its strategy: Lightning's own know the names of others only."""

    def setup_device(self, device: torch.device) -> None:
        """Takes the device as it is."""


class Rings(pl.LightningModule):
    """Tells the points inside of a ring from those outside."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Returns the loss of a batch."""
        loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.manual_seed(0)
    points = torch.randn(512, 2)
    labels = (points.norm(dim=1) > 1.2).long()
    model = Rings()
    strategy = SingleDeviceStrategy(torch.device(options.device), accelerator=AnyDevice())
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = pl.Trainer(max_steps=options.steps, strategy=strategy, **dict.fromkeys(quiet, False))
    trainer.fit(model, DataLoader(TensorDataset(points, labels), batch_size=64, shuffle=True))
    with torch.no_grad():
        right = (model.network.to(options.device)(points.to(options.device)).argmax(1).cpu() == labels).float().mean()
    place = next(model.parameters()).device
    print(f"{place}: loss {model.losses[0]:.3f} to {model.losses[-1]:.3f}; {right:.0%} right")


if __name__ == "__main__":
    main()
