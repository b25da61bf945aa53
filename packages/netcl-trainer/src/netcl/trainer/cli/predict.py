"""``netcl predict``: the outputs of a saved model for an array of inputs."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from netcl import io
from netcl.core.device import device
from netcl.data import DataLoader, NpyDataset
from netcl.trainer.cli.build import open_device
from netcl.trainer.trainer import Trainer

__all__ = ["predict"]


def predict(chosen: argparse.Namespace) -> int:
    """Writes the outputs as .npy, or prints a line per sample: the class and its probability, or the values."""
    with device(open_device(chosen.device)):
        model = io.load_model(chosen.model)
        outputs = Trainer(model).predict(DataLoader(NpyDataset(chosen.input), chosen.batch_size))
    if chosen.output:
        np.save(Path(chosen.output), outputs)
        print(f"{outputs.shape} {outputs.dtype} {chosen.output}")
        return 0
    for number, row in enumerate(outputs.reshape(len(outputs), -1)):
        if outputs.ndim == 2 and outputs.shape[1] > 1:
            shares = np.exp(row - row.max())
            best = int(row.argmax())
            print(f"{number} class {best} {100 * shares[best] / shares.sum():.1f} %")
        else:
            print(number, *(f"{value:.6g}" for value in row))
    return 0
