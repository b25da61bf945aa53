"""Trains an LSTM to forecast the load of a town's power grid for a day, from a CSV file of hourly rows.

    python examples/jobs/forecast_lstm.py --picture week.png
    python examples/jobs/forecast_lstm.py --csv load.csv

The file has the columns hour, weekday, temperature and load; without --csv one of two years is made. The last fifth of
the hours is held out. The last line is the mean absolute error of the forecasts there: about 1.9 MW, after about a
minute on two cores of an AMD EPYC (Intel's CPU runtime), which other work shared. Taking the day before for the day to
come is wrong by 3.0 MW.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl import nn
from netcl.core import Tensor
from netcl.core.device import device
from netcl.data import CSVDataset, DataLoader
from netcl.optim import AdamW, CosineAnnealingLR
from netcl.trainer import Trainer

Array = np.ndarray[Any, Any]
SEEN, AHEAD = 72, 24  # hours that a forecast is made from, and for
COLUMNS = ("hour", "weekday", "temperature", "load")


def wander(rng: np.random.Generator, count: int, keep: float) -> Array:
    """Returns numbers with deviation 1; each keeps a part of the previous number."""
    steps, now = rng.standard_normal(count) * np.sqrt(1 - keep**2), 0.0
    values = np.empty(count)
    for at, step in enumerate(steps):
        values[at] = now = keep * now + step
    return values


def write_csv(path: Path, days: int, seed: int) -> None:
    """A town that works on weekdays and heats when it is cold."""
    rng, at = np.random.default_rng(seed), np.arange(24 * days)
    hour, weekday = at % 24, at // 24 % 7
    weather = 4 * wander(rng, len(at), 0.995) + 9 - 10 * np.cos(2 * np.pi * at / (365 * 24))
    temperature = weather - 4 * np.cos(2 * np.pi * (hour - 3) / 24)
    awake = np.exp(-(((hour - 12) / 5) ** 2)) + 0.7 * np.exp(-(((hour - 19) / 2) ** 2))
    load = 40 + 22 * awake * np.where(weekday < 5, 1, 0.55) + 0.9 * np.maximum(0, 16 - temperature)
    load += 1.5 * wander(rng, len(at), 0.9)
    rows = (f"{h},{d},{t:.1f},{v:.2f}" for h, d, t, v in zip(hour, weekday, temperature, load))
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n", encoding="utf-8")


def read_csv(path: Path) -> tuple[Array, Array, int]:
    """Features (hours, 6), the load in MW (hours,), and the first hour held out.

    The hours before it give the mean and the deviation by which temperature and load are scaled.
    """
    table = CSVDataset(path)
    if missing := set(COLUMNS) - set(table.columns):
        raise SystemExit(f"{path} has no column {', '.join(missing)}, its columns are {', '.join(table.columns)}")
    hour, weekday, temperature, load = (table.arrays[0][:, table.columns.index(name)] for name in COLUMNS)
    day, week = 2 * np.pi * hour / 24, 2 * np.pi * weekday / 7
    split = len(load) * 4 // 5
    scaled = [(part - part[:split].mean()) / part[:split].std() for part in (temperature, load)]
    return np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week), *scaled], axis=1), load, split


class Forecast(nn.Module):
    """The load of the hours to come (n, AHEAD) from the features of those seen (n, SEEN, 6)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, width, batch_first=True)
        self.head = nn.Linear(width, AHEAD)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        changes: Tensor = self.head(states[:, -1])
        return x[:, -AHEAD:, -1] + changes  # to the day before


def draw(path: Path, true: Array, forecast: Array, error: float) -> None:
    """Writes a week to a file: the load, and the forecasts that were made at each midnight of it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(len(true)) / 24, true, color="#667080", label="load")
    for day, values in enumerate(forecast):
        label = "forecast at midnight" if day == 0 else None
        axes.plot(day + np.arange(AHEAD) / 24, values, color="#d97706", lw=1.2, label=label)
    axes.set(xlabel="day", ylabel="MW", title=f"mean absolute error of all days held out: {error:.2f} MW")
    axes.grid(color="#e5e7eb")
    axes.margins(y=0.15)
    axes.legend(frameon=False, ncols=2, loc="upper right")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="a table of your own; one is made without it")
    parser.add_argument("--epochs", type=int, help="12 by default, 5 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw a week of forecasts to this file")
    parser.add_argument("--quick", action="store_true", help="90 days instead of two years, a smaller network")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')

    if options.csv:
        features, load, split = read_csv(options.csv)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_csv(Path(folder) / "load.csv", 90 if options.quick else 730, options.seed)
            features, load, split = read_csv(Path(folder) / "load.csv")
    offset, scale = load[:split].mean(), load[:split].std()
    windows = np.lib.stride_tricks.sliding_window_view(features[:-AHEAD], SEEN, axis=0).transpose(0, 2, 1)
    targets = np.lib.stride_tricks.sliding_window_view(features[SEEN:, -1], AHEAD, axis=0)
    # Windows that end before the hours held out, and those that forecast none but these.
    learn, test = slice(0, split - SEEN - AHEAD), slice(split - SEEN, None)
    every = 6 if options.quick else 1
    epochs = options.epochs or (5 if options.quick else 12)
    with device(options.device):
        nc.manual_seed(options.seed)
        train = (np.ascontiguousarray(part[learn][::every]) for part in (windows, targets))
        loader = DataLoader(tuple(train), 16 if options.quick else 64, shuffle=True, drop_last=True, seed=options.seed)
        model = Forecast(24 if options.quick else 64)
        optimizer = AdamW(model.parameters(), lr=1e-2 if options.quick else 3e-3)
        schedule = CosineAnnealingLR(optimizer, epochs)
        trainer = Trainer(model, optimizer, loss_fn=nn.MSELoss(), metrics={}, scheduler=schedule, grad_clip=1.0)
        start = time.perf_counter()
        trainer.fit(loader, epochs=epochs)
        seconds = time.perf_counter() - start
        forecast = trainer.predict(DataLoader(np.ascontiguousarray(windows[test]), 256)) * scale + offset
    true = targets[test] * scale + offset
    before = windows[test][:, -AHEAD:, -1] * scale + offset
    error, as_before = np.abs(forecast - true).mean(), np.abs(before - true).mean()
    if options.picture:
        first = -(split % 24) % 24  # the first midnight of the hours held out
        draw(options.picture, load[split + first :][: 7 * 24], forecast[first::24][:7], error)
    print(f"error {error:.2f} MW, of the day before {as_before:.2f} MW, {seconds:.1f} s")


if __name__ == "__main__":
    main()
