"""A run of six epochs that continues after it was killed, as a script: FOLDER WORKERS [DEVICE] [stuck].

Prints its numbers at the end. ``stuck``: the main thread does not come back from C in the third step.
"""

from __future__ import annotations

import hashlib
import sys
import time
from typing import Any

import numpy as np

from netcl import nn, ops
from netcl.core.device import device
from netcl.data import DataLoader, Dataset
from netcl.optim import AdamW, CosineAnnealingLR, ModelEMA
from netcl.trainer import Callback, ModelCheckpoint, Trainer


class Noisy(Dataset):
    """Samples with noise of their own, by the generator that the loader seeds for each."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        label = index % 3
        x = np.random.normal(0, 0.3, (1, 4, 4)).astype(np.float32)
        x[0, label] += 1.5
        return x, label


class Slow(Callback):
    """Says which step is over, and makes every step last."""

    def __init__(self, stuck: bool) -> None:
        self.stuck = stuck

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        print("step", trainer.step, flush=True)
        if self.stuck and trainer.step == 3:
            # As a driver does it: without Python's lock, and no signal ends it.
            hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)
        time.sleep(0.02)


def main(folder: str, workers: int, selector: str = "cpu", stuck: str = "") -> None:
    with device(selector):
        ops.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2)]
        model = nn.Sequential(*layers, nn.Linear(64, 3))
        optimizer = AdamW(model.parameters(), lr=1e-2)
        trainer = Trainer(
            model,
            optimizer,
            None,
            True,
            ema=ModelEMA(model, 0.9),
            scheduler=CosineAnnealingLR(optimizer, 6),
            callbacks=[ModelCheckpoint(folder, "loss", every_n_steps=2), Slow(bool(stuck))],
            metrics_stride=3,
            seed=1,
        )
        with DataLoader(Noisy(), 16, shuffle=True, seed=2, num_workers=workers) as loader:
            history = trainer.fit(loader, epochs=6, log_every=0, resume="auto")
        digest = hashlib.sha256()
        for tensor in (*model.state_dict().values(), *trainer.ema.shadow.values()):
            digest.update(tensor.to_host().tobytes())
    for row in history:
        print("row", row["epoch"], row["step"], repr(row["loss"]), repr(row["accuracy"]))
    print("digest", digest.hexdigest(), optimizer.lr, trainer.scaler.get_scale() if trainer.scaler else None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
