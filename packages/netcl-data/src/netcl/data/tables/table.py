"""Table: a file, a frame or arrays with named columns, read in pieces; the kinds of its columns; its parts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.budget import Budget
from netcl.data.sample_random import check_seed, sample_keys
from netcl.data.tables.cells import MISSING_VALUES, Chunk, TableError
from netcl.data.tables.columns import KINDS, ColumnFacts, kind_of
from netcl.data.tables.fitting import TableEncoding, fit
from netcl.data.tables.sources import Source, source_of

# Rows that are in memory at once while a table is read.
_ROWS = 8192


@dataclass(frozen=True)
class _Share:
    """Rows with a hash by ``seed`` within [low, high), as a share of all."""

    low: float
    high: float
    seed: int

    def chosen(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        keys = sample_keys(self.seed, 0, np.arange(first, first + count))
        drawn = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.asarray((self.low <= drawn) & (drawn < self.high))


class Table:
    """A table with named columns: a CSV or Parquet file, a frame of pandas, polars or pyarrow, or a dict of arrays.

    Nothing is kept but the facts of each column: a file is read again, in pieces, by each pass. ``repr(table)`` shows
    the columns with their kinds: numbers, categories, dates (ISO 8601), texts that are mostly different, and empty
    ones; the latter two are left out.

    Args:
        target: the column to predict, or a list of them; None: none.
        types: ``{column: kind}`` for kinds that are found wrongly: "number", "category", "date", "text" (left out), or
            a format of dates such as "%d.%m.%Y".
        drop: columns that are left out.
        missing_values: texts that stand for nothing, in addition to ``MISSING_VALUES``.
        delimiter: None: found in the first line.
        decimal: the mark of a fraction.
        encoding: of a text file, UTF-8.
        header: False for a file without names: its columns are then "0", "1", ..
        budget: limits of the reader.

    Raises TableError (a ValueError) for a file that is no table, with line and column, and for an unknown column;
    ImportError for a Parquet file without pyarrow; TypeError for data of another kind.

    >>> table = Table({"age": [3, 5, 8, 9], "kind": ["cat", "dog", "dog", "cat"]}, target="kind")
    >>> encoding = table.fit()
    >>> encoding.target.classes
    ['cat', 'dog']
    """

    def __init__(
        self,
        data: Any,
        target: str | Sequence[str] | None = None,
        *,
        types: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        missing_values: Sequence[str] = (),
        delimiter: str | None = None,
        decimal: str = ".",
        encoding: str = "utf-8",
        header: bool = True,
        budget: Budget | None = None,
    ) -> None:
        if isinstance(drop, str) or isinstance(missing_values, str):
            raise TypeError("drop and missing_values are lists of texts")
        self.missing_values: list[str] = sorted({*MISSING_VALUES, *missing_values})
        self.source: Source = source_of(
            data,
            frozenset(self.missing_values),
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
            header=header,
            budget=budget,
        )
        names = self.source.names()
        self.targets: list[str] = [] if target is None else [target] if isinstance(target, str) else list(target)
        self.types: dict[str, str] = dict(types or {})
        self.drop: list[str] = list(drop)
        for name in (*self.targets, *self.types, *self.drop):
            self.check_column(name, names)
        left_out = next((name for name in self.targets if name in self.drop), None)
        if left_out is not None:
            raise TableError(f"the target {left_out!r} is in drop")
        for name, kind in self.types.items():
            if kind not in KINDS[:-1] and "%" not in kind:
                known = ", ".join(KINDS[:-1])
                raise TableError(f"expected {known} or a format such as %d.%m.%Y as the type of {name!r}, got {kind!r}")
        self.columns: list[str] = [name for name in names if name not in self.drop]
        self._shares: tuple[_Share, ...] = ()

    def check_column(self, name: str, names: Sequence[str]) -> None:
        """Raises TableError unless ``name`` is among ``names``."""
        if name not in names:
            close = difflib.get_close_matches(name, names, 1, 0.6)
            meant = f"did you mean {close[0]!r}? " if close else ""
            listed = ", ".join(names[:30]) + (", .." if len(names) > 30 else "")
            raise TableError(f"{self.source.name} has no column {name!r}; {meant}it has {listed}")

    # -- rows --------------------------------------------------------------------------------------------------------

    def chunks(self, size: int | None = None) -> Iterator[Chunk]:
        """Yields the rows in pieces of at most ``size`` rows (None: 8,192), in their order."""
        for chunk in self.source.chunks(size or _ROWS):
            chosen = np.ones(len(chunk), bool)
            for share in self._shares:
                chosen &= share.chosen(chunk.first, len(chunk))
            if chosen.all():
                yield chunk
            elif chosen.any():
                yield chunk.take(np.flatnonzero(chosen))

    def split(self, share: float, seed: int = 0) -> tuple[Table, Table]:
        """Returns two parts: about ``share`` of the rows, and the others. A row's part depends on its number and
        ``seed`` only.

        Raises ValueError for a share outside of (0, 1).
        """
        if not 0 < share < 1:
            raise ValueError(f"share must be between 0 and 1, got {share!r}")
        seed = check_seed(seed)
        return self._part(_Share(0.0, share, seed)), self._part(_Share(share, 1.0, seed))

    def _part(self, share: _Share) -> Table:
        part = object.__new__(type(self))
        part.__dict__.update({name: value for name, value in self.__dict__.items() if name != "facts"})
        # A part of a part draws other hashes.
        part._shares = (*self._shares, replace(share, seed=share.seed + (len(self._shares) << 32)))
        return part

    def __len__(self) -> int:
        """Returns the number of rows; the first call reads the table."""
        return max((facts.rows for facts in self.facts.values()), default=0)

    # -- columns -----------------------------------------------------------------------------------------------------

    @cached_property
    def facts(self) -> dict[str, ColumnFacts]:
        """The facts of each column, of one pass over the rows. Raises TableError if there are none."""
        facts = {
            name: ColumnFacts(name, kind if "%" in (kind := self.types.get(name, "")) else None)
            for name in self.columns
        }
        for chunk in self.chunks():
            for name, column in facts.items():
                column.add(chunk.columns[name], chunk.first)
        if not any(column.rows for column in facts.values()):
            raise TableError(f"{self.source.name} holds no rows of data{' in this part' if self._shares else ''}")
        return facts

    def kinds(self) -> dict[str, str]:
        """Returns the kind of each column: number, category, date, text or empty. Raises TableError for a column of
        numbers with a few cells that are none.
        """
        kinds = {name: "date" if "%" in kind else kind for name, kind in self.types.items()}
        return {name: kind_of(facts, kinds.get(name)) for name, facts in self.facts.items()}

    def fit(
        self,
        *,
        missing: str | float | Mapping[str, str | float] = "mean",
        categories: str | Mapping[str, str] = "one-hot",
        standardize: bool = True,
        unseen: str = "zeros",
        task: str = "auto",
    ) -> TableEncoding:
        """Returns the encoding of the columns, fitted to the rows of this table: give the training part alone.

        Args:
            missing: what a missing number or date becomes: "mean", "median", a number, "flag" (the mean, and a further
                value that is 1), or "error"; a dict names columns, and "default" the others.
            categories: "one-hot" or "embedding" (ids for ``nn.Embedding``), or a dict.
            standardize: numbers and targets as (x - mean) / std.
            unseen: a category that is not in this table becomes "zeros", or is an "error".
            task: "classification", "regression" or "multilabel"; "auto": texts are classes, whole numbers with at most
                20 values too, several columns of 0 and 1 are labels, other numbers are regression.

        Raises TableError for a target without values, with missing ones or that does not fit the task, and ValueError
        for an unknown option.
        """
        return fit(self, missing, categories, standardize, unseen, task)  # pyright: ignore[reportArgumentType]

    def __repr__(self) -> str:
        rows = self._described()
        widths = [max(len(row[at]) for row in rows) for at in range(3)]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]) for row in rows]
        return "\n".join([f"Table of {len(self):,} rows, {self.source.name}", *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        head, *rows = self._described()
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        names = "".join(f"<th>{name}</th>" for name in head)
        return (
            f"<p>Table of {len(self):,} rows, {escape(self.source.name)}</p>"
            f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _described(self) -> list[tuple[str, str, str, str]]:
        """Returns name, kind, missing cells and values of each column."""
        kinds = self.kinds()
        rows = [("column", "kind", "missing", "values")]
        for name, facts in self.facts.items():
            kind = f"{kinds[name]}, target" if name in self.targets else kinds[name]
            rows.append((name, kind, f"{facts.missing:,}" if facts.missing else "", facts.summary(kinds[name])))
        return rows
