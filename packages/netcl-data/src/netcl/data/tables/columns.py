"""ColumnFacts: counts and moments of a column, collected piece by piece, and the kind of column that they imply."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.sample_random import sample_keys
from netcl.data.tables.cells import Cells, TableError, first_of

KINDS = ("number", "category", "date", "text", "empty")
# Distinct texts that are counted; a column with more is no category.
_DISTINCT = 10_000
# Rows that a median is taken from; it is exact up to this many.
_SAMPLED = 1 << 16
# A column in which so many of the values are numbers (or dates) is one of numbers, with errors in it.
_NEARLY_ALL = 0.9
# Texts that are mostly different, as names and numbers of orders are, distinguish rows and not kinds.
_FEW = 50


@dataclass
class Moments:
    """Number, mean and sum of squared deviations of values, merged as by Chan, Golub and LeVeque (1983); a median from
    the values of the rows with the smallest hashes.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True
    keys: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    drawn: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    largest: Any = None  # of the keys, once there are more rows than are kept

    def add(self, values: npt.NDArray[np.float64], first: int) -> None:
        """Adds values of the rows from ``first``; NaN is skipped."""
        there = ~np.isnan(values)
        rows, values = np.flatnonzero(there) + first, values[there]
        if not values.size:
            return
        count, mean = values.size, float(values.mean())
        squares, apart, total = float(((values - mean) ** 2).sum()), mean - self.mean, self.count + count
        self.squares += squares + apart * apart * self.count * count / total
        self.mean += apart * count / total
        self.count = total
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.whole = self.whole and bool((values == np.round(values)).all())
        keys = sample_keys(0, 0, rows)
        if self.largest is not None:
            chosen = keys < self.largest
            keys, values = keys[chosen], values[chosen]
        self.keys, self.drawn = np.concatenate([self.keys, keys]), np.concatenate([self.drawn, values])
        if len(self.keys) > _SAMPLED + _SAMPLED // 4:
            self._select()

    def _select(self) -> None:
        """Keeps the values of the smallest keys."""
        if len(self.keys) > _SAMPLED:
            smallest = np.argpartition(self.keys, _SAMPLED)[:_SAMPLED]
            self.keys, self.drawn = self.keys[smallest], self.drawn[smallest]
            self.largest = self.keys.max()

    @property
    def sample(self) -> npt.NDArray[np.float64]:
        """The values of up to 65,536 rows, chosen by a hash of their numbers."""
        self._select()
        return self.drawn

    @property
    def std(self) -> float:
        """The standard deviation; 1 for a constant column, which is divided by it."""
        deviation = math.sqrt(self.squares / self.count) if self.count else 0.0
        return deviation if deviation > 1e-12 * max(1.0, abs(self.mean)) else 1.0

    @property
    def median(self) -> float:
        """The median of ``sample``."""
        sample = self.sample
        return float(np.median(sample)) if sample.size else 0.0


@dataclass
class ColumnFacts:
    """The facts of the column ``name``; ``pattern`` is the format of its dates."""

    name: str
    pattern: str | None = None
    rows: int = 0
    missing: int = 0
    numbers: Moments = field(default_factory=Moments)
    dates: Moments = field(default_factory=Moments)
    distinct: Counter[str] | None = field(default_factory=Counter)
    no_number: TableError | None = None  # for the first cell that is none
    no_date: TableError | None = None

    def add(self, cells: Cells, first: int) -> None:
        """Adds cells of the rows from ``first``."""
        missing = cells.missing
        self.rows += len(cells)
        self.missing += int(missing.sum())
        values, wrong = cells.numbers()
        self.numbers.add(values, first)
        at = first_of(wrong)
        if at is not None:
            self.no_number = self.no_number or cells.error(at, f"{cells.shown(at)} is no number within float32")
        if at is not None or self.pattern is not None:
            values, wrong = cells.dates(self.pattern)
            self.dates.add(values, first)
            at = first_of(wrong)
            if at is not None:
                self.no_date = self.no_date or cells.error(at, f"{cells.shown(at)} is no date")
        if self.distinct is not None:
            texts = cells.texts()
            if missing.any():
                texts = [text for text, absent in zip(texts, missing.tolist()) if not absent]
            self.distinct.update(texts)
            if len(self.distinct) > _DISTINCT:
                self.distinct = None

    @property
    def present(self) -> int:
        """The number of cells with a value."""
        return self.rows - self.missing

    def values(self) -> list[str]:
        """Returns the distinct texts in order; numbers are in the order of their values."""
        texts = list(self.distinct or ())
        if self.no_number is None:
            return sorted(texts, key=lambda text: (_value(text), text))
        return sorted(texts)

    def summary(self, kind: str) -> str:
        """Returns a description of the values for the table of columns."""
        if kind == "empty":
            return "no values, left out"
        if kind == "text":
            return "texts that are mostly different, left out"
        if kind == "number":
            m = self.numbers
            return f"{m.low:.6g} to {m.high:.6g}, mean {m.mean:.6g}"
        if kind == "date":
            low, high = (np.datetime64(int(value), "s").astype("datetime64[D]") for value in _range(self.dates))
            return f"{low} to {high}"
        shown = [f"{text} ({count})" for text, count in (self.distinct or Counter()).most_common(4)]
        count = len(self.distinct or ())
        return f"{count} values: {', '.join(shown)}{', ..' if count > 4 else ''}"


def _range(moments: Moments) -> tuple[float, float]:
    return (moments.low, moments.high) if moments.count else (0.0, 0.0)


def _value(text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.inf


def kind_of(facts: ColumnFacts, given: str | None = None) -> str:
    """Returns the kind of a column, one of KINDS; ``given`` is the one that the user names.

    Raises TableError for a column of numbers (or dates) with a few cells that are none.
    """
    if facts.present == 0:
        return "empty"
    if given is not None:
        _check_given(facts, given)
        return given
    if facts.pattern is not None:
        _check_given(facts, "date")
        return "date"
    for kind, moments, wrong in (("number", facts.numbers, facts.no_number), ("date", facts.dates, facts.no_date)):
        if wrong is None and moments.count:
            return kind
        if moments.count >= _NEARLY_ALL * facts.present:
            raise TableError(
                f"{wrong}, and {moments.count:,} of {facts.present:,} values of the column are {kind}s; correct the "
                f'cell, add it to missing_values, or write types={{"{facts.name}": "category"}}'
            )
    if facts.distinct is None or len(facts.distinct) > max(_FEW, facts.present // 2):
        return "text"
    return "category"


def _check_given(facts: ColumnFacts, given: str) -> None:
    wrong: Any = {"number": facts.no_number, "date": facts.no_date}.get(given)
    if given == "date" and facts.no_number is None and not facts.dates.count:
        wrong = TableError(f"column {facts.name!r} holds numbers; write the format of its dates, such as %Y%m%d")
    if wrong is not None:
        raise TableError(f"{wrong}, and types says that the column is one of {given}s")
    if given == "category" and facts.distinct is None:
        raise TableError(f"column {facts.name!r} has more than {_DISTINCT:,} different values, too many for a category")
