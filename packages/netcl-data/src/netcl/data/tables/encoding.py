"""The columns of a fitted table as arrays: each class keeps plain values, and turns cells into float32 or int64."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from netcl.data.tables.cells import Cells, TableError, first_of

_DAY, _YEAR, _WEEK = 86400.0, 365.2425 * 86400.0, 7 * 86400.0
_MONDAY = 4 * _DAY  # 1970-01-05


@dataclass(frozen=True)
class Input(ABC):
    """A column that a model reads; ``width`` values for each row."""

    kind: ClassVar[str] = ""
    name: str

    @property
    def names(self) -> list[str]:
        """The names of the values."""
        return [self.name]

    @property
    def width(self) -> int:
        """The number of values for each row."""
        return len(self.names)

    @abstractmethod
    def encode(self, cells: Cells) -> npt.NDArray[Any]:
        """Returns the values of cells, (rows, width). Raises TableError with the place of a wrong cell."""


@dataclass(frozen=True)
class NumberInput(Input):
    """A number, (x - mean) / std; a missing one is ``fill``, or an error if ``fill`` is None. ``flag`` adds a value: 1
    if it was missing.
    """

    kind: ClassVar[str] = "number"
    fill: float | None
    mean: float
    std: float
    flag: bool = False

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name} missing"] if self.flag else [self.name]

    def encode(self, cells: Cells) -> npt.NDArray[np.float32]:
        values, wrong = cells.numbers()
        cells.refuse(wrong, "is no number within float32, as the column had in training")
        missing = np.isnan(values)
        filled = _filled(cells, values, missing, self.fill)
        columns = [(filled - self.mean) / self.std, *([missing] if self.flag else [])]
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class DateInput(Input):
    """A date: its time, (seconds - mean) / std, sine and cosine of the time of the year and of the week, and of the day
    if ``hours`` is true.
    """

    kind: ClassVar[str] = "date"
    fill: float | None
    mean: float
    std: float
    hours: bool = False
    pattern: str | None = None

    @property
    def names(self) -> list[str]:
        parts = [f"{wave} of the {part}" for part in ("year", "week", "day") for wave in ("sine", "cosine")]
        return [f"{self.name} {part}" for part in ("time", *parts[: 6 if self.hours else 4])]

    def encode(self, cells: Cells) -> npt.NDArray[np.float32]:
        values, wrong = cells.dates(self.pattern)
        cells.refuse(wrong, "is no date, as the column had in training")
        values = _filled(cells, values, np.isnan(values), self.fill)
        columns = [(values - self.mean) / self.std]
        for period, start in ((_YEAR, 0.0), (_WEEK, _MONDAY), (_DAY, 0.0))[: 3 if self.hours else 2]:
            angle = 2 * math.pi * ((values - start) / period % 1.0)
            columns += [np.sin(angle), np.cos(angle)]
        return np.stack(columns, axis=1).astype(np.float32)


def _filled(cells: Cells, values: npt.NDArray[Any], missing: npt.NDArray[Any], fill: float | None) -> npt.NDArray[Any]:
    at = first_of(missing)
    if at is not None and fill is None:
        raise cells.error(at, 'the value is missing; fill it, or write missing="mean", "median", "flag" or a number')
    return values if at is None or fill is None else np.where(missing, fill, values)


@dataclass(frozen=True)
class CategoryInput(Input):
    """A category, one-hot: 1 at its place in ``values``. One that was not seen in training is all zeros, or an error if
    ``unseen`` is "error"; a missing one is the category "" if there were missing ones in training.
    """

    kind: ClassVar[str] = "category"
    values: list[str]
    unseen: str = "zeros"

    @property
    def names(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values]

    def encode(self, cells: Cells) -> npt.NDArray[np.float32]:
        ids = _ids(cells, self.values, self.unseen)
        encoded = np.zeros((len(ids), len(self.values) + 1), np.float32)
        encoded[np.arange(len(ids)), ids] = 1
        return encoded[:, 1:]


@dataclass(frozen=True)
class EmbeddingInput(Input):
    """A category as an id for ``nn.Embedding``: 1 for the first of ``values``; 0 for one that was not seen, or that is
    missing and never was in training.
    """

    kind: ClassVar[str] = "embedding"
    values: list[str]
    unseen: str = "zeros"

    @property
    def size(self) -> int:
        """The rows of the embedding."""
        return len(self.values) + 1

    @property
    def dimensions(self) -> int:
        """The length of a vector: half the number of values, at most 50 (as fastai's first rule)."""
        return min(50, (len(self.values) + 2) // 2)

    def encode(self, cells: Cells) -> npt.NDArray[np.int64]:
        return _ids(cells, self.values, self.unseen)[:, None]


def _ids(cells: Cells, values: list[str], unseen: str) -> npt.NDArray[np.int64]:
    """Returns the places of categories in ``values`` from 1 on, 0 for others."""
    places = {value: place for place, value in enumerate(values, 1)}
    missing = cells.missing
    ids = np.array([places.get(text, 0) for text in cells.texts()], np.int64)
    ids[missing] = places.get("", 0)
    if unseen == "error":
        cells.refuse((ids == 0) & ~missing, "was not seen in training; unseen='zeros' encodes it as zeros")
    return ids


INPUTS: dict[str, type[Input]] = {kind.kind: kind for kind in (NumberInput, DateInput, CategoryInput, EmbeddingInput)}


def plain(value: Any) -> dict[str, Any]:
    """Returns a column's values for JSON, with its kind."""
    return {"kind": value.kind, **asdict(value)}


def rebuilt(kinds: Mapping[str, type[Any]], stored: Any, what: str) -> Any:
    """Returns the object of stored plain values; raises TableError if they are not of its types."""
    if not isinstance(stored, Mapping) or stored.get("kind") not in kinds:
        raise TableError(f"{what} of a stored table must be one of {', '.join(kinds)}, got {str(stored)[:80]}")
    kind = kinds[stored["kind"]]
    hints = get_type_hints(kind)
    options = {name: value for name, value in stored.items() if name != "kind"}
    names = [entry.name for entry in fields(kind)]
    if set(options) != set(names):
        raise TableError(f"{what} of a stored table must have {', '.join(names)}, got {', '.join(map(str, options))}")
    for name in names:
        if not _fits(options[name], hints[name]):
            raise TableError(f"{name} of {what} of a stored table is {str(options[name])[:80]!r}, not of its type")
    deviations = options.get("std", 1.0)
    if not all(deviations if isinstance(deviations, list) else [deviations]):
        raise TableError(f"std of {what} of a stored table must not be 0")
    return kind(**options)


def _fits(value: Any, hint: Any) -> bool:
    """True if a plain value is of an annotated type."""
    origin = get_origin(hint)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        return any(_fits(value, part) for part in get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
