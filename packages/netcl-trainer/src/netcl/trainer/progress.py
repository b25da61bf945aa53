"""ProgressBar: a bar per epoch in a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from netcl.trainer.callbacks import Callback
from netcl.trainer.history import rising

if TYPE_CHECKING:
    from netcl.trainer.trainer import Trainer

__all__ = ["ProgressBar", "describe_logs"]

_UNLISTED = ("epoch", "step", "seconds", "samples_per_second")


def describe_logs(logs: dict[str, Any]) -> str:
    """Metrics as text: ``loss 0.1234  accuracy 96.52 %  val_loss 0.1500``."""
    return "  ".join(f"{name} {_value(name, value)}" for name, value in logs.items() if name not in _UNLISTED)


def _value(name: str, value: Any) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    if name.endswith("accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:.4f}" if rising(name) or abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def _title(trainer: Trainer) -> str:
    return f"epoch {trainer.epoch:{len(str(trainer.epochs))}}/{trainer.epochs}"


class ProgressBar(Callback):
    """Loss, metrics and samples per second while an epoch runs; ``log_every`` epochs apart.

    In a terminal every epoch has a bar (on stderr), which stays for those that ``log_every`` picks. Where ``file``
    (default: stdout) is no terminal, these epochs print one line each.
    """

    def __init__(self, log_every: int = 1, file: TextIO | None = None) -> None:
        if log_every < 1:
            raise ValueError(f"log_every is at least 1, not {log_every}")
        self.log_every, self.file = log_every, file
        self._bar: Any = None
        self._start = 0.0

    def on_epoch_start(self, trainer: Trainer) -> None:
        if self.file is None and sys.stderr.isatty():
            self._bar = tqdm(
                total=trainer.steps_per_epoch,
                desc=_title(trainer),
                leave=self._picked(trainer),
                unit="step",
                dynamic_ncols=True,
                file=sys.stderr,
                bar_format="{desc} {percentage:3.0f}% |{bar:24}| {n_fmt}/{total_fmt} {elapsed}{postfix}",
            )
            self._start = time.perf_counter()

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if self._bar is None:
            return
        self._bar.update()
        if logs:
            rate = trainer.samples / (time.perf_counter() - self._start)
            self._bar.set_postfix_str(f"{describe_logs(logs)}  {rate:,.0f} samples/s", refresh=False)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
        rate = f"{logs['samples_per_second']:,.0f} samples/s"
        if self._bar is not None:
            self._bar.set_postfix_str(f"{describe_logs(logs)}  {rate}")
            self._close()
        elif self._picked(trainer):
            line = f"{_title(trainer)}  {describe_logs(logs)}  {logs['seconds']:.1f} s  {rate}"
            print(line, file=self.file or sys.stdout, flush=True)

    def on_exception(self, trainer: Trainer, error: BaseException) -> None:
        self._close()

    def _picked(self, trainer: Trainer) -> bool:
        return trainer.epoch % self.log_every == 0 or trainer.epoch in (1, trainer.epochs)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
