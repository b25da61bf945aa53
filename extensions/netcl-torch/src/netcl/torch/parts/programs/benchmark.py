"""torch.utils.benchmark: the time of a statement, with its spread, and tables of several."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import netcl.torch
from netcl.core import manager
from netcl.core.errors import UnsupportedError

TORCH_NAMES = ("Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_WORDS = {"s": "", "ms": "milli", "us": "micro", "ns": "nano"}


def timer() -> float:
    """Returns the time in seconds once the devices have computed what they were given."""
    for handle in manager.select():
        handle.queue.finish()
    return timeit.default_timer()


def select_unit(t: float) -> tuple[str, float]:
    """Returns the unit for a time, ("us", 1e-6) for a microsecond."""
    for unit, seconds in _UNITS.items():
        if t >= seconds:
            return unit, seconds
    return "ns", 1e-9


def trim_sigfig(x: float, n: int) -> float:
    """Returns a number rounded to ``n`` significant digits."""
    return float(f"{x:.{max(n, 1) - 1}e}")


class Language:
    """The language of a statement: Python."""

    PYTHON: int = 0
    CPP: int = 1


@dataclass(frozen=True)
class TaskSpec:
    """The statement of a measurement, and the texts that name it in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, else the statement."""
        parts = [self.label or (self.stmt if "\n" not in self.stmt else "[multi-line statement]"), self.sub_label]
        return ": ".join(part for part in parts if part)


@dataclass
class Measurement:
    """The times of runs of a statement: ``raw_times`` in seconds, each of ``number_per_run`` runs."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """The seconds of one run."""
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The range of the middle half of the times."""
        low, high = np.quantile(self.times, (0.25, 0.75))
        return float(high - low)

    @property
    def significant_figures(self) -> int:
        """The digits of the median that the spread of the times leaves."""
        spread = self.iqr / (len(self.times) ** 0.5 * 1.35)
        return 5 if spread <= 0 else max(1, min(5, int(np.floor(np.log10(self.median / spread)))))

    @property
    def has_warnings(self) -> bool:
        """True if the range of the middle half is a tenth of the median or more."""
        return self.iqr >= 0.1 * self.median

    @property
    def title(self) -> str:
        """The title of the statement."""
        return self.task_spec.title

    def __getattr__(self, name: str) -> Any:
        if name in ("stmt", "setup", "label", "sub_label", "description", "env", "num_threads"):
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        lines = [f"<torch.utils.benchmark.utils.common.Measurement object at {hex(id(self))}>", self.title]
        lines += [f"setup: {self.task_spec.setup}"] if self.task_spec.setup != "pass" else []
        count, runs = len(self.times), self.number_per_run
        if count > 1:
            low, high = np.quantile(self.times, (0.25, 0.75)) / scale
            lines += [f"  Median: {self.median / scale:.2f} {unit}"]
            lines += [f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})"]
        else:
            lines += [f"  {self.median / scale:.2f} {unit}"]
        threads = self.task_spec.num_threads
        lines += [
            f"  {count} measurement{'s' * (count > 1)}, {runs} runs {'per measurement' * (count > 1)}, "
            f"{threads} thread{'s' * (threads > 1)}"
        ]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Sequence[Measurement]) -> list[Measurement]:
        """Returns one measurement for each statement and number of runs, with the times of all."""
        groups: dict[Any, Measurement] = {}
        for each in measurements:
            key = (each.task_spec, each.number_per_run)
            whole = groups.setdefault(key, Measurement(each.number_per_run, [], each.task_spec))
            whole.raw_times.extend(each.raw_times)
        return list(groups.values())


class Timer:
    """Measures a statement of Python; it runs with ``globals``, after ``setup``."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            raise UnsupportedError(f"Timer: statements are Python, got language={language!r}")
        names = {"torch": netcl.torch, **(globals or {})}
        self._spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = timeit.Timer(stmt, setup, timer, names)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Returns the time of ``number`` runs, after a hundredth of them to warm up."""
        self._timer.timeit(max(number // 100, 2))
        return self._measured(number, [self._timer.timeit(number)])

    def _number(self, least: float) -> int:
        """The runs after which the clock counts for a thousandth of the time, or ``least`` seconds have passed."""
        overhead = statistics.median(timeit.Timer(timer=timer).timeit(0) for _ in range(5))
        number = 1
        while True:
            seconds = self._timer.timeit(number)
            if overhead <= seconds * 1e-4 or seconds >= least:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Returns the times of blocks of runs, which together take at least ``min_run_time`` seconds."""
        number = self._number(min_run_time / 1000)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """``blocked_autorange`` until the range of the middle half is below ``threshold`` of the median."""
        whole = self.blocked_autorange(callback, min_run_time)
        while sum(whole.raw_times) < max_run_time and (len(whole.times) < 4 or whole.iqr > threshold * whole.median):
            whole.raw_times.append(self._timer.timeit(whole.number_per_run))
        return whole

    def collect_callgrind(self, *args: Any, **options: Any) -> None:
        """Refused: raises UnsupportedError."""
        raise UnsupportedError("collect_callgrind counts instructions of PyTorch's own library")


class Compare:
    """A table of measurements: a row for each sub-label, a column for each description."""

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)
        self._trims = False

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Adds measurements."""
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Rounds times to the digits that their spread leaves."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Does nothing: tables have no colours."""

    highlight_warnings = colorize

    def print(self) -> None:
        """Prints the tables."""
        print(self)

    def _text(self, measured: Measurement | None, scale: float) -> str:
        if measured is None:
            return ""
        value = trim_sigfig(measured.median, measured.significant_figures) if self._trims else measured.median
        return f"{value / scale:.1f}"

    def __str__(self) -> str:
        tables = []
        merged = Measurement.merge(self._results)
        for label in dict.fromkeys(each.task_spec.label for each in merged):
            cells = {
                ((spec := each.task_spec).num_threads, spec.sub_label or spec.stmt, spec.description): each
                for each in merged
                if each.task_spec.label == label
            }
            unit, scale = select_unit(min(each.median for each in cells.values()))
            columns = list(dict.fromkeys(key[2] for key in cells))
            lines = [["", *(str(column or "") for column in columns)]]
            for threads in dict.fromkeys(key[0] for key in cells):
                lines.append([f"{threads} threads:", *([""] * len(columns))])
                for row in dict.fromkeys(key[1] for key in cells if key[0] == threads):
                    times = [self._text(cells.get((threads, row, column)), scale) for column in columns]
                    lines.append([f"      {row}", *times])
            widths = [max(map(len, column)) for column in zip(*lines)]
            rows = ["  |  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
            tables.append("\n".join([f"[{f' {label} ' if label else ''}]".center(len(rows[0]), "-"), *rows]))
            tables.append(f"\nTimes are in {_WORDS[unit]}seconds ({unit}).\n")
        return "\n".join(tables)
