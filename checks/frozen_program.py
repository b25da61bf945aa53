"""A program for the sessions that freeze netcl: prints the device, and the loss before and after an epoch."""

from __future__ import annotations

import numpy as np

import netcl as nc
from netcl import nn
from netcl.autograd import mse_loss
from netcl.data import ArrayDataset, DataLoader
from netcl.optim import SGD
from netcl.trainer import Trainer


def main() -> None:
    """Fits y = 3 x by the Trainer, whose modules are imported by name."""
    x = np.linspace(-1, 1, 640, dtype=np.float32).reshape(-1, 1)
    batches = DataLoader(ArrayDataset(x, 3 * x), batch_size=32, shuffle=True, seed=0)
    model = nn.Linear(1, 1)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.2), loss_fn=mse_loss, metrics={}, seed=0)
    before = trainer.evaluate(batches)
    trainer.fit(batches, epochs=1)
    after = trainer.evaluate(batches)
    print(nc.get_default_device(), before, after)
    if not after["loss"] < 0.1 * before["loss"]:
        raise SystemExit("the line was not fitted")


if __name__ == "__main__":
    main()
