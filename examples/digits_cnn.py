"""Trains a small convolutional network on 1,797 scans of handwritten digits, with the training loop written out.

    python examples/digits_cnn.py --epochs 8

Every fifth scan is held out; the last line is how many of those are read right.
"""

from __future__ import annotations

import argparse

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core.device import device
from netcl.data import DataLoader, example_digits
from netcl.optim import AdamW, OneCycleLR


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()

    x, y = example_digits()
    held_out = np.arange(len(x)) % 5 == 4
    with device(options.device):
        nc.manual_seed(0)
        loader = DataLoader((x[~held_out], y[~held_out]), 64, shuffle=True, drop_last=True, seed=0)
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )
        loss_fn = nn.CrossEntropyLoss()
        optimizer = AdamW(model.parameters(), lr=1e-3)
        schedule = OneCycleLR(optimizer, max_lr=1e-2, total_steps=options.epochs * len(loader))
        for epoch in range(options.epochs):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = loss_fn(model(nc.tensor(images)), nc.tensor(labels))
                loss.backward()
                optimizer.step()
                schedule.step()
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
        model.eval()
        with nc.no_grad():
            read = model(nc.tensor(x[held_out])).numpy().argmax(axis=1)
    print(f"accuracy {100 * (read == y[held_out]).mean():.2f} %")


if __name__ == "__main__":
    main()
