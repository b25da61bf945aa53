"""Cells: a piece of a column as numbers, dates or texts, with the place of each cell for messages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.errors import DataFileError
from netcl.data.tables.packed_texts import PackedTexts

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Cells that stand for nothing, as R, Excel, pandas and the UCI repository write them.
MISSING_VALUES = ("", "?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "#N/A")
_LARGEST = float(np.finfo(np.float32).max)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?)?")


class TableError(DataFileError):
    """A table cannot be read or encoded; the message names the file, the line and the column."""


@dataclass(frozen=True)
class Cells:
    """Some cells of the column ``name``: ``values`` are texts, or an array of numbers or datetime64.

    ``place(i)`` says where cell i is. ``missing_values`` are the texts that stand for nothing, ``decimal`` is the mark
    of a fraction.
    """

    name: str
    values: list[str] | PackedTexts | npt.NDArray[Any]
    place: Callable[[int], str]
    missing_values: frozenset[str] = frozenset(MISSING_VALUES)
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.values)

    def error(self, index: int, problem: str) -> TableError:
        """Returns an error about one cell."""
        return TableError(f"{self.place(index)}, column {self.name!r}: {problem}")

    def refuse(self, wrong: Mask, problem: str) -> None:
        """Raises the error about the first wrong cell, which begins with its text."""
        at = first_of(wrong)
        if at is not None:
            raise self.error(at, f"{self.shown(at)} {problem}")

    def shown(self, index: int) -> str:
        """Returns a cell for a message, at most 80 characters."""
        return repr(str(self.values[index])[:80])

    @cached_property
    def missing(self) -> Mask:
        """True for each cell without a value."""
        if isinstance(self.values, PackedTexts):
            return self.values.among(self.missing_values)
        if isinstance(self.values, list):
            if self.missing_values.isdisjoint(self.values):
                return np.zeros(len(self.values), bool)
            return np.array([*map(self.missing_values.__contains__, self.values)], bool)
        if self.values.dtype.kind == "M":
            return np.asarray(np.isnat(self.values))
        return np.asarray(np.isnan(self.values.astype(np.float64)))

    def texts(self) -> list[str]:
        """Returns each cell as a text; whole numbers have no fraction."""
        if isinstance(self.values, list):
            return self.values
        if isinstance(self.values, PackedTexts):
            return self.values.texts
        if self.values.dtype.kind == "M":
            return [str(value) for value in self.values]
        return [str(int(value)) if float(value).is_integer() else repr(float(value)) for value in self.values]

    def numbers(self) -> tuple[Floats, Mask]:
        """Returns the numbers (NaN for missing ones), and True for each cell that is neither missing nor a number
        within float32.
        """
        missing = self.missing
        if isinstance(self.values, PackedTexts):
            values = self.values.numbers(self.decimal)
            rest = np.flatnonzero(np.isnan(values) & ~missing)
            values[rest] = _floats(self.values.take(rest).texts, missing[rest], self.decimal)
        elif isinstance(self.values, list):
            values = _floats(self.values, missing, self.decimal)
        elif self.values.dtype.kind == "M":
            values = np.full(len(self), np.nan)
        else:
            values = self.values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            wrong = ~missing & ~(np.abs(values) <= _LARGEST)
        values[missing | wrong] = np.nan
        return values, wrong

    def dates(self, pattern: str | None = None) -> tuple[Floats, Mask]:
        """Returns seconds since 1970 (NaN for missing ones), and True for each cell that is neither missing nor a date:
        ISO 8601, or ``pattern`` of ``datetime.strptime``.
        """
        missing = self.missing
        if isinstance(self.values, (list, PackedTexts)):
            texts = self.texts()
            seconds = {text: _seconds(text, pattern) for text in set(texts) - self.missing_values}
            values = np.array([seconds.get(text, math.nan) for text in texts], np.float64)
        elif self.values.dtype.kind == "M":
            values = self.values.astype("datetime64[s]").astype(np.float64)
            values[missing] = np.nan
        else:
            values = np.full(len(self), np.nan)
        values = values.astype(np.float64)
        return values, ~missing & np.isnan(values)


def _floats(texts: list[str], missing: Mask, decimal: str) -> Floats:
    """Returns the numbers in texts; NaN for a text that is none."""
    if decimal != ".":
        texts = [text.replace(decimal, ".") if "." not in text else "" for text in texts]
    # Texts that are no numbers are often equal.
    numbers = {text: _number(text) for text in set(texts)}
    values = np.array([numbers[text] for text in texts], np.float64)
    values[missing] = math.nan
    return values


def _number(text: str) -> float:
    try:
        # Python reads 1_000 as a thousand, and no other reader of tables does.
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


@lru_cache(maxsize=4096)
def _seconds(text: str, pattern: str | None) -> float:
    try:
        if pattern is not None:
            date = datetime.strptime(text.strip(), pattern)
        else:
            match = _ISO.fullmatch(text.strip())
            if match is None:
                return math.nan
            zone = (match[3] or "").replace("Z", "+00:00")
            if zone and ":" not in zone:
                zone = f"{zone[:3]}:{zone[3:]}"
            date = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{zone}")
        return date.replace(tzinfo=date.tzinfo or timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return math.nan


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table: its columns by name; ``first`` is the number of the first row, from 0."""

    first: int
    columns: dict[str, Cells]
    size: int

    def __len__(self) -> int:
        return self.size

    def take(self, rows: npt.NDArray[np.int64]) -> Chunk:
        """Returns the chosen rows; their cells keep their places."""
        return Chunk(self.first, {name: _taken(cells, rows) for name, cells in self.columns.items()}, len(rows))


def _taken(cells: Cells, rows: npt.NDArray[np.int64]) -> Cells:
    if isinstance(cells.values, list):
        values: Any = [*map(cells.values.__getitem__, rows.tolist())]
    else:
        values = cells.values.take(rows)
    return Cells(cells.name, values, _Moved(cells.place, rows), cells.missing_values, cells.decimal)


@dataclass(frozen=True)
class _Moved:
    place: Callable[[int], str]
    rows: Sequence[int] | npt.NDArray[np.int64]

    def __call__(self, index: int) -> str:
        return self.place(int(self.rows[index]))


def first_of(mask: Mask) -> int | None:
    """Returns the index of the first True; None if there is none."""
    at = np.flatnonzero(mask)
    return int(at[0]) if at.size else None


def pieces(size: int, length: int) -> Iterator[slice]:
    """Yields slices of ``size`` rows that cover ``length`` rows."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
