"""ProgressBar: prints a line per epoch, and shows a bar in a terminal while an epoch runs."""

from __future__ import annotations

import logging
import shutil
import sys
import time
import warnings
from importlib import import_module
from typing import Any, TextIO

from tqdm import tqdm

from netcl.trainer.arguments import device_of
from netcl.trainer.callbacks import Callback
from netcl.trainer.epoch_table import larger_is_better
from netcl.trainer.run_view import RunView

_BAR = "{desc} |{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
_LOG_WIDTH = 100
_builds = logging.getLogger("netcl.builds")
_UNLISTED = ("epoch", "step", "seconds", "samples_per_second")


def describe_logs(logs: dict[str, Any]) -> str:
    """Returns metrics as text: ``loss 0.1234 accuracy 96.52 % val_loss 0.1500``."""
    return "  ".join(_parts(logs))


def _parts(logs: dict[str, Any]) -> list[str]:
    return [f"{name} {_value(name, value)}" for name, value in logs.items() if _is_listed(name, value)]


def _is_listed(name: str, value: Any) -> bool:
    return name not in _UNLISTED and not isinstance(value, list)  # a confusion matrix has a page of its own


def _fitted(parts: list[str], width: int) -> str:
    """Returns the line of the parts; in less than its width without the last, then the learning rate, until it fits."""
    separator = "  "
    while len(separator.join(parts)) > width:
        spare = [part for part in parts if part.endswith("samples/s")] or [part for part in parts if part[:2] == "lr"]
        spare = spare or [part for part in parts if part.endswith(" s")]
        if spare:
            parts = [part for part in parts if part != spare[-1]]
        elif separator == "  ":
            separator = " "
        else:
            break
    return separator.join(parts)


def _value(name: str, value: Any) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    if name.endswith("accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:.4f}" if larger_is_better(name) or abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def _title(trainer: RunView) -> str:
    return f"epoch {trainer.epoch:{len(str(trainer.epochs))}}/{trainer.epochs}"


def _bar_kind() -> Any:
    """Returns the class of bars for a terminal or a notebook; None if there is neither."""
    if sys.stderr.isatty():
        return tqdm
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if "IPKernelApp" not in getattr(shell, "config", ()):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets tqdm says so, and shows a bar of characters
        return import_module("tqdm.auto").tqdm


class _Builds(logging.Handler):
    """Prints a line, once, when netcl-core's builder of programs says that it is at work."""

    def __init__(self, bar: ProgressBar, text: str) -> None:
        super().__init__()
        self._bar, self._text = bar, text

    def emit(self, record: logging.LogRecord) -> None:
        _builds.removeHandler(self)
        self._bar.say(self._text)


class ProgressBar(Callback):
    """Prints a line for every ``log_every``-th epoch, the first and the last: loss, metrics, seconds and samples per
    second.

    Lines go to ``file``, stdout by default. In a terminal (on stderr), and in a notebook (by tqdm.auto), a bar
    shows the same while an epoch runs.
    """

    def __init__(self, log_every: int = 1, file: TextIO | None = None) -> None:
        if log_every < 1:
            raise ValueError(f"log_every must be at least 1, got {log_every}")
        self.log_every: int = log_every
        self.file: TextIO | None = file
        self._bar: Any = None
        self._start = 0.0
        self._builds: _Builds | None = None

    def on_fit_start(self, trainer: RunView) -> None:
        # A terminal shows the line of netcl-core, which counts the kernels.
        handle = device_of(trainer.model)
        if not sys.stderr.isatty() and handle is not None and handle.backend != "cpu":
            self._builds = _Builds(self, f"building kernels for {handle}, kept for the next run ..")
            _builds.addHandler(self._builds)

    def on_epoch_start(self, trainer: RunView) -> None:
        kind = None if self.file is not None else _bar_kind()
        if kind is None:
            return
        # A pseudo-terminal may report zero rows and columns, for which tqdm would show nothing.
        size = shutil.get_terminal_size((100, 24))
        self._start = time.perf_counter()
        self._bar = kind(
            total=trainer.steps_per_epoch,
            desc=_title(trainer),
            leave=False,
            # In a notebook the characters of a bar on stderr are on red.
            file=sys.stderr if sys.stderr.isatty() else sys.stdout,
            ncols=min(size.columns - 1, 120),
            nrows=size.lines,
            bar_format=None if trainer.steps_per_epoch is None else _BAR,
        )

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        if self._bar is None:
            return
        if logs:
            rate = trainer.samples / (time.perf_counter() - self._start)
            self._bar.set_postfix_str(f"{describe_logs(logs)}  {rate:,.0f} samples/s", refresh=False)
        self._bar.update()

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        self._close()
        if trainer.epoch % self.log_every == 0 or trainer.epoch in (1, trainer.epochs):
            timing = f"{logs['seconds']:.1f} s", f"{logs['samples_per_second']:,.0f} samples/s"
            self.say(_fitted([_title(trainer), *_parts(logs), *timing], self._width()))

    def on_fit_end(self, trainer: RunView) -> None:
        self._built()

    def on_exception(self, trainer: RunView, error: BaseException) -> None:
        self._built()
        self._close()

    def say(self, text: str) -> None:
        """Prints a line to ``file``."""
        print(text, file=self.file or sys.stdout, flush=True)

    def _width(self) -> int:
        """Returns the columns of a terminal; else a number that a log or a notebook shows in one line."""
        stream = self.file or sys.stdout
        return shutil.get_terminal_size((100, 24)).columns if stream.isatty() else _LOG_WIDTH

    def _built(self) -> None:
        """Says no more that kernels are built."""
        if self._builds is not None:
            _builds.removeHandler(self._builds)
            self._builds = None

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
