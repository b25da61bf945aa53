"""ReduceLROnPlateau: a schedule that follows a metric instead of the epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netcl.core.errors import from_here
from netcl.optim.optimizer import Optimizer, require
from netcl.optim.schedules import Scheduler


class ReduceLROnPlateau(Scheduler):
    """Multiplies the learning rate by ``factor`` after more than ``patience`` steps without an improvement of the
    metric.

    Improvement: below best (1 - threshold) for mode "min", above best (1 + threshold) for "max"; with
    ``threshold_mode="abs"`` best -/+ threshold.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        require(factor < 1, f"expected factor below 1, got {factor}")
        require(
            mode in ("min", "max") and threshold_mode in ("rel", "abs"), "mode is min or max, threshold_mode rel or abs"
        )
        count = len(optimizer.param_groups)
        self.min_lrs: list[float] | list[float | int] = (
            list(min_lr) if isinstance(min_lr, Sequence) else [min_lr] * count
        )
        require(len(self.min_lrs) == count, f"{len(self.min_lrs)} values of min_lr for {count} groups")
        self.optimizer = optimizer
        self.mode: str = mode
        self.factor: float = factor
        self.patience: int = patience
        self.threshold: float = threshold
        self.threshold_mode: str = threshold_mode
        self.cooldown: int = cooldown
        self.eps: float = eps
        self.best: float = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs: int = 0
        self.cooldown_counter: int = 0
        self.last_epoch = 0
        self.lrs: list[float] = self.get_last_lr()

    def is_better(self, metric: float) -> bool:
        """Returns True if ``metric`` is an improvement."""
        sign = -1.0 if self.mode == "min" else 1.0
        rel = self.threshold_mode == "rel"
        mark = self.best * (1.0 + sign * self.threshold) if rel else self.best + sign * self.threshold
        return sign * metric > sign * mark

    def step(self, metric: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Records ``metric`` (a number or a 0-d tensor) and reduces the rate if the patience is exceeded."""
        value = float(metric)
        self.last_epoch: int | float = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                new = max(group["lr"] * self.factor, least)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self.lrs = self.get_last_lr()

    def _set_after_load(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self.lrs):
            group["lr"] = lr


from_here(globals())
