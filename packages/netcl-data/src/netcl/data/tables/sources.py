"""Sources of tables: the names of the columns and their cells in pieces, of files, frames and arrays.

pandas, polars and pyarrow are recognized by the module of their objects; none is imported unless a Parquet file is
read.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from netcl.data.budget import Budget
from netcl.data.reading import opened
from netcl.data.tables.cells import Cells, Chunk, TableError, pieces
from netcl.data.tables.csv_file import CSVSource

_PARQUET = (".parquet", ".pq")


class Source(Protocol):
    """The columns of a table and its rows in pieces; each call of ``chunks`` starts again."""

    @property
    def name(self) -> str:
        """The file, or the kind of the object, for messages."""
        ...

    def names(self) -> list[str]:
        """Returns the names of the columns."""
        ...

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yields the rows in pieces of at most ``size``."""
        ...


def source_of(
    data: Any,
    missing_values: frozenset[str],
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    header: bool = True,
    budget: Budget | None = None,
) -> Source:
    """Returns the source of a CSV or Parquet file, a frame of pandas, polars or pyarrow, or a dict of arrays. Raises
    TypeError for anything else.
    """
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if path.suffix.lower() in _PARQUET:
            return ParquetSource(path, missing_values, budget)
        return CSVSource(path, missing_values, delimiter, decimal, encoding, header, budget)
    if isinstance(data, Mapping):
        return ColumnsSource({str(name): _array(values) for name, values in data.items()}, missing_values, "the table")
    library = type(data).__module__.partition(".")[0]
    if library in ("pandas", "polars", "pyarrow"):
        columns = _frame_columns(data, library)
        return ColumnsSource(columns, missing_values, f"the {library} table")
    raise TypeError(
        f"expected a path, a frame of pandas, polars or pyarrow, or a dict of arrays, got {type(data).__name__}"
    )


def _frame_columns(frame: Any, library: str) -> dict[str, Any]:
    if library == "pyarrow":
        return {str(name): _arrow(frame.column(name)) for name in frame.column_names}
    names = list(frame.columns)
    if len({str(name) for name in names}) != len(names):
        raise TableError(f"the {library} table has two columns of one name: {', '.join(map(str, names))}")
    if library == "polars":
        return {str(name): _listed(frame.get_column(name).to_list(), frame.schema[name]) for name in names}
    return {str(name): _pandas(frame[name]) for name in names}


def _pandas(series: Any) -> Any:
    kind = getattr(series.dtype, "kind", "O")
    if kind in "biuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == "M":
        zone = getattr(series.dtype, "tz", None)
        return (series if zone is None else series.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy("datetime64[s]")
    missing = series.isna().to_numpy(dtype=bool)
    return _texts(series.astype(object).tolist(), missing)


# The beginnings of the names of types, in lower case.
_NUMBERS, _DATES = ("int", "uint", "float", "double", "halffloat", "bool", "decimal"), ("timestamp", "date")


def _listed(values: list[Any], kind: Any) -> Any:
    """Returns the values of a column of polars or pyarrow of the type ``kind``."""
    if str(kind).lower().startswith(_NUMBERS):
        return np.array([np.nan if value is None else float(value) for value in values], np.float64)
    if str(kind).lower().startswith(_DATES):
        return np.array([_date(value) for value in values], "datetime64[s]")
    return _texts(values)


def _arrow(column: Any) -> Any:
    return _listed(column.to_pylist(), column.type)


def _date(value: Any) -> Any:
    if value is None:
        return np.datetime64("NaT", "s")
    if getattr(value, "tzinfo", None) is not None:
        return np.datetime64(int(value.timestamp()), "s")
    return np.datetime64(value.replace(microsecond=0) if hasattr(value, "microsecond") else value, "s")


def _texts(values: list[Any], missing: npt.NDArray[np.bool_] | None = None) -> list[str]:
    """Returns objects as texts, with "" for None."""
    absent = [value is None for value in values] if missing is None else missing
    return ["" if none else str(value).strip() for value, none in zip(values, absent)]


def _array(values: Any) -> Any:
    """Returns numbers and dates as an array, anything else as texts."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise TableError(f"expected a column with one value for each row, got shape {array.shape}")
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind == "M":
        return array.astype("datetime64[s]")
    listed = array.tolist()
    return _texts(listed, np.array([value is None or value != value for value in listed], bool))


@dataclass(frozen=True)
class _Row:
    """Says the row of a table in memory."""

    name: str
    first: int

    def __call__(self, index: int) -> str:
        return f"{self.name}, row {self.first + index}"


@dataclass(frozen=True)
class ColumnsSource:
    """Columns in memory: lists of texts, float64 or datetime64[s]."""

    columns: Mapping[str, Any]
    missing_values: frozenset[str]
    name: str

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise TableError(f"the columns of a table must have one length, got {lengths}")

    def names(self) -> list[str]:
        """Returns the names of the columns."""
        return list(self.columns)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yields the rows in pieces of ``size``."""
        length = max((len(values) for values in self.columns.values()), default=0)
        for piece in pieces(size, length):
            place = _Row(self.name, piece.start)
            cells = {
                name: Cells(name, values[piece], place, self.missing_values) for name, values in self.columns.items()
            }
            yield Chunk(piece.start, cells, piece.stop - piece.start)


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, read in pieces by pyarrow."""

    path: Path
    missing_values: frozenset[str]
    budget: Budget | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        """Returns the names of the columns. Raises ImportError without pyarrow."""
        parquet = _pyarrow()
        with opened(self.path, self.budget, kind="Parquet file") as (file, _):
            return [str(name) for name in parquet.ParquetFile(file).schema_arrow.names]

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yields the rows in pieces of ``size``."""
        first, parquet = 0, _pyarrow()
        with opened(self.path, self.budget, kind="Parquet file") as (file, _):
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=size):
                columns = {str(name): _arrow(batch.column(name)) for name in batch.schema.names}
                yield from _moved(ColumnsSource(columns, self.missing_values, self.name).chunks(size), first)
                first += batch.num_rows


def _moved(chunks: Iterator[Chunk], first: int) -> Iterator[Chunk]:
    """Counts the rows of the chunks from ``first``."""
    for chunk in chunks:
        columns = {
            name: Cells(name, cells.values, _Row(cells.place.name, first), cells.missing_values)  # type: ignore[attr-defined]
            for name, cells in chunk.columns.items()
        }
        yield Chunk(first, columns, len(chunk))


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError('a Parquet file is read by pyarrow: pip install "netcl-data[parquet]"') from error
