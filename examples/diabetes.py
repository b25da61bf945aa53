"""Regression on scikit-learn's diabetes data, compared with scikit-learn's least squares.

    python examples/diabetes.py --epochs 50

Every fourth of 442 patients is held out; the last line is the share of the variance that the network explains there.
"""

from __future__ import annotations

import argparse

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core.device import device
from netcl.data import DataLoader
from netcl.optim import AdamW


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--epochs", type=int, default=50)
    options = parser.parse_args()
    try:
        from sklearn.datasets import load_diabetes
        from sklearn.linear_model import LinearRegression
        from sklearn.metrics import r2_score
    except ImportError:
        raise SystemExit("this example needs scikit-learn: pip install scikit-learn") from None

    x, y = load_diabetes(return_X_y=True)
    held_out = np.arange(len(x)) % 4 == 3
    mean, spread = x[~held_out].mean(axis=0), x[~held_out].std(axis=0)
    x = ((x - mean) / spread).astype(np.float32)
    offset, scale = y[~held_out].mean(), y[~held_out].std()
    target = ((y - offset) / scale).astype(np.float32)[:, None]
    with device(options.device):
        nc.manual_seed(0)
        loader = DataLoader((x[~held_out], target[~held_out]), 32, shuffle=True, seed=0)
        model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Dropout(0.2), nn.Linear(32, 1))
        optimizer, loss_fn = AdamW(model.parameters(), lr=3e-3, weight_decay=0.1), nn.SmoothL1Loss()
        for _ in range(options.epochs):
            for features, wanted in loader:
                optimizer.zero_grad()
                loss_fn(model(nc.tensor(features)), nc.tensor(wanted)).backward()
                optimizer.step()
        model.eval()
        with nc.no_grad():
            predicted = model(nc.tensor(x[held_out])).numpy()[:, 0] * scale + offset
    linear = LinearRegression().fit(x[~held_out], y[~held_out])
    print(f"least squares: R2 {r2_score(y[held_out], linear.predict(x[held_out])):.3f}")
    print(f"R2 {r2_score(y[held_out], predicted):.3f}")


if __name__ == "__main__":
    main()
