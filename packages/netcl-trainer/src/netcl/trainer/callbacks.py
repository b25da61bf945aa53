"""Callback, the base class with hooks for a run, its epochs and steps, and two small callbacks."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core.errors import NetclError, from_here
from netcl.trainer.epoch_table import larger_is_better
from netcl.trainer.run_view import RunView

# Names of other libraries for the hooks.
_OTHER_HOOKS = {
    **dict.fromkeys(("on_train_begin", "on_train_start", "on_fit_begin"), "on_fit_start(self, trainer)"),
    "on_train_end": "on_fit_end(self, trainer)",
    **dict.fromkeys(("on_epoch_begin", "on_train_epoch_start"), "on_epoch_start(self, trainer)"),
    **dict.fromkeys(
        ("on_train_epoch_end", "on_validation_end", "on_validation_epoch_end", "on_test_end"),
        "on_epoch_end(self, trainer, logs)",
    ),
    **dict.fromkeys(("on_batch_end", "on_train_batch_end", "after_batch"), "on_step_end(self, trainer, logs)"),
    **dict.fromkeys(
        ("on_batch_begin", "on_batch_start", "on_train_batch_begin", "on_train_batch_start"),
        "on_step_end(self, trainer, logs), which is called after each step",
    ),
}


class Callback:
    """Override the methods that you need; every method of this class does nothing.

    ``logs`` of ``on_step_end`` are the means of the epoch so far if they were read after this step (every
    ``metrics_stride`` steps), else empty. ``logs`` of ``on_epoch_end`` is the epoch's entry in the History; entries
    that a callback adds to it appear there. Callbacks are called in the order given. ``trainer`` is the Trainer (see
    RunView); callbacks may set ``trainer.should_stop``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises TypeError for a method ``on_...`` that no Trainer calls, with the name of the hook here."""
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            if name.startswith("on_") and not hasattr(Callback, name):
                hooks = ", ".join(hook for hook in vars(Callback) if hook.startswith("on_"))
                instead = f"write {_OTHER_HOOKS[name]}" if name in _OTHER_HOOKS else f"the hooks are {hooks}"
                raise TypeError(f"{cls.__name__}.{name} is no hook and would never be called; {instead}")

    def on_fit_start(self, trainer: RunView) -> None:
        """Called before the first epoch."""

    def on_fit_end(self, trainer: RunView) -> None:
        """Called after the last epoch; not after an error."""

    def on_epoch_start(self, trainer: RunView) -> None:
        """Called before the first batch of an epoch."""

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        """Called after an epoch, its validation and the scheduler's step."""

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        """Called after each step."""

    def on_exception(self, trainer: RunView, error: BaseException) -> None:
        """Called if ``fit`` ends by an error or an interrupt, which is raised to the caller afterwards."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that a resumed run needs: plain values and arrays, saved with the run."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of ``state_dict``, after ``on_fit_start`` of the resumed run."""


class MonitorError(NetclError, KeyError):
    """A callback follows a value that no epoch has."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes


def check_monitors(callbacks: Sequence[Callback], measured: Sequence[str], validated: bool) -> None:
    """Raises MonitorError if a callback follows a value that no epoch will have: ``measured``, and ``val_...`` of each
    if the run is ``validated``.

    A callback of the user may add values to an epoch: with one, only the first epoch tells.
    """
    adds = any(
        type(callback).on_epoch_end is not Callback.on_epoch_end and not type(callback).__module__.startswith("netcl.")
        for callback in callbacks
    )
    names = ["epoch", "step", *measured, *(f"val_{name}" for name in measured if validated)]
    names += ["seconds", "samples_per_second"]
    names += ["lr"] if any(isinstance(callback, LearningRateMonitor) for callback in callbacks) else []
    for callback in callbacks:
        name = getattr(callback, "monitor", None)
        if isinstance(name, str) and not adds and getattr(callback, "save_top_k", 1) != 0:
            monitored(dict.fromkeys(names, 0.0), name, type(callback).__name__)


def monitored(logs: dict[str, Any], name: str, who: str) -> float:
    """Returns the value of ``name`` in an epoch's logs; raises MonitorError with the known names."""
    if name not in logs:
        hint = "; give fit a val_loader" if name.removeprefix("val_") in logs else ""
        close = difflib.get_close_matches(name, list(logs), 1, 0.7)
        meant = f"; did you mean {close[0]!r}?" if close and not hint else ""
        raise MonitorError(f"{who} monitors {name!r}, but an epoch has {', '.join(logs)}{hint}{meant}")
    return float(logs[name])


def is_better(value: float, best: float | None, largest: bool, min_delta: float = 0.0) -> bool:
    """Returns True if ``value`` is better than ``best`` by more than ``min_delta``; False for NaN."""
    if math.isnan(value) or best is None:
        return not math.isnan(value)
    return value > best + min_delta if largest else value < best - min_delta


class EarlyStopping(Callback):
    """Ends the run after ``patience`` epochs in a row without an improvement of ``monitor`` by more than ``min_delta``,
    and says so.

    ``mode``: "min" or "max"; None: "max" for accuracies and similar metrics. At the end the model gets its weights, and
    ``ema`` its averages, of the best epoch, unless ``restore_best`` is False.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str | None = None,
        restore_best: bool = True,
    ) -> None:
        if patience < 1 or min_delta < 0 or mode not in (None, "min", "max"):
            raise ValueError(
                f"patience must be at least 1, min_delta at least 0, mode 'min' or 'max', got "
                f"{patience}, {min_delta} and {mode!r}"
            )
        self.monitor: str = monitor
        self.patience: int = patience
        self.min_delta: float = min_delta
        self.restore_best: bool = restore_best
        self.largest: bool = larger_is_better(monitor) if mode is None else mode == "max"
        self.best: float | None = None
        self.stopped_epoch: int
        self.best_epoch: int
        self.best_epoch = self.stopped_epoch = 0
        self._waited = 0
        self._weights: dict[str, Any] = {}
        self._averages: dict[str, Any] = {}

    def on_fit_start(self, trainer: RunView) -> None:
        self.best, self.best_epoch, self.stopped_epoch, self._waited = None, 0, 0, 0
        self._weights, self._averages = {}, {}

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        value = monitored(logs, self.monitor, "EarlyStopping")
        if is_better(value, self.best, self.largest, self.min_delta):
            self.best, self.best_epoch, self._waited = value, trainer.epoch, 0
            if self.restore_best:
                self._weights = {name: t.to_host() for name, t in trainer.model.state_dict().items()}
                self._averages = {name: t.to_host() for name, t in getattr(trainer.ema, "shadow", {}).items()}
            return
        self._waited += 1
        if self._waited >= self.patience:
            self.stopped_epoch = trainer.epoch
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best,
            "best_epoch": self.best_epoch,
            "stopped_epoch": self.stopped_epoch,
            "waited": self._waited,
            "weights": self._weights,
            "averages": self._averages,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.best_epoch, self.stopped_epoch = state["best"], state["best_epoch"], state["stopped_epoch"]
        self._waited, self._weights = state["waited"], dict(state["weights"])
        self._averages = dict(state.get("averages", {}))

    def on_fit_end(self, trainer: RunView) -> None:
        for name, tensor in trainer.model.state_dict().items() if self._weights else ():
            tensor.write(self._weights[name])
        for name, value in self._averages.items():
            trainer.ema.shadow[name].write(value)
        if self.stopped_epoch and self.stopped_epoch == trainer.epoch:
            epochs = "an epoch" if self.patience == 1 else f"{self.patience} epochs"
            trainer.announce(
                f"stopped after epoch {trainer.epoch} of {trainer.epochs}: {self.monitor} did not improve for {epochs}"
            )
        if self.best is not None and self.best_epoch != trainer.epoch:
            has = "the model has its weights" if self._weights else "the model has the weights of the last"
            trainer.announce(f"the best epoch is {self.best_epoch}, {self.monitor} {self.best:.4g}: {has}")


class LearningRateMonitor(Callback):
    """Adds the learning rate at each epoch's start to the History: ``lr``, or ``lr_0``, ``lr_1``.. for several
    groups.
    """

    def __init__(self) -> None:
        self._lrs: list[float] = []

    def on_epoch_start(self, trainer: RunView) -> None:
        self._lrs = [float(group["lr"]) for group in trainer.optimizer.param_groups]

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        if len(self._lrs) == 1:
            logs["lr"] = self._lrs[0]
        else:
            logs.update({f"lr_{group}": lr for group, lr in enumerate(self._lrs)})

    def state_dict(self) -> dict[str, Any]:
        return {"lrs": self._lrs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._lrs = list(state["lrs"])


from_here(globals())
