"""The learning-rate range test: losses over an increasing learning rate, and the suggested rate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from netcl import ops
from netcl.trainer.batches import Batch, batches, on_device
from netcl.trainer.step import TrainingStep
from netcl.trainer.training_state import TrainingState

# The test ends when the loss is this many times the minimum.
_DIVERGED = 4.0
_SMOOTHING = 0.9


@dataclass(frozen=True)
class LearningRates:
    """``losses`` at each of ``lrs``, smoothed by an exponential moving average with weight 0.1 per step."""

    lrs: list[float]
    losses: list[float]

    @property
    def suggestion(self) -> float:
        """The rate at which the loss falls fastest over the logarithm of the rate; raises ValueError if it
        never falls.
        """
        # The slopes after the minimum, where the loss diverges, are ignored.
        lowest = int(np.argmin(self.losses))
        slopes = np.gradient(self.losses[: lowest + 1]) if lowest >= 2 else np.zeros(1)
        if slopes.min() >= 0:
            raise ValueError(
                f"the loss falls nowhere between the rates {self.lrs[0]:.3g} and {self.lrs[-1]:.3g}: take other "
                "limits, or more steps"
            )
        return self.lrs[int(np.argmin(slopes))]

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Plots the losses over the rates as a matplotlib Figure with the suggestion marked; saved to ``path`` if
        given. Needs matplotlib: ``pip install "netcl-trainer[plot]"``.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError('plot needs matplotlib: pip install "netcl-trainer[plot]"') from error
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        axes.plot(self.lrs, self.losses)
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        axes.set_ylabel("loss")
        axes.grid(alpha=0.3)
        try:
            axes.axvline(self.suggestion, color="C1", linestyle="--", label=f"suggestion {self.suggestion:.3g}")
            axes.legend()
        except ValueError:
            axes.set_title("the loss falls nowhere")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


def find_learning_rate(
    step: TrainingStep, loader: Any, queue: Any, min_lr: float, max_lr: float, steps: int
) -> LearningRates:
    """Runs ``Trainer.lr_find``."""
    if not 0 < min_lr < max_lr or steps < 2:
        raise ValueError(f"expected 0 < min_lr < max_lr and at least 2 steps, got {min_lr}, {max_lr} and {steps}")
    state, randomness = TrainingState(step), ops.get_rng_state()
    before = state.read()
    position = loader.state_dict() if hasattr(loader, "load_state_dict") else None
    rates = [float(rate) for rate in np.geomspace(min_lr, max_lr, steps)]
    lrs: list[float] = []
    losses: list[float] = []
    mean, means, samples = 0.0, step.measures.means, 0
    step.model.train()
    try:
        for number, (rate, batch) in enumerate(zip(rates, _repeated(loader)), 1):
            for group in step.optimizer.param_groups:
                group["lr"] = rate
            means.reset()
            step(*(on_device(value, queue) for value in batch.fields))
            means.count(len(batch))
            samples += len(batch)
            loss = means.read()["loss"]
            if not math.isfinite(loss):
                break
            mean = _SMOOTHING * mean + (1 - _SMOOTHING) * loss
            lrs.append(rate)
            losses.append(mean / (1 - _SMOOTHING**number))
            if losses[-1] > _DIVERGED * min(losses):
                break
    finally:
        means.reset()
        state.write(before)
        ops.set_rng_state(randomness)
        if position is not None:
            loader.load_state_dict(position)
    if not lrs:
        what = "the loss is not finite at the first step" if samples else "the loader gave no batch"
        raise ValueError(f"lr_find: {what}")
    return LearningRates(lrs, losses)


def _repeated(loader: Iterable[Any]) -> Iterator[Batch]:
    for _ in itertools.count():
        empty = True
        for batch in batches(loader):
            empty = False
            yield batch
        if empty:
            return
