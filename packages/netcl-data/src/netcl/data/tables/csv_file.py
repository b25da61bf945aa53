"""CSVSource: a CSV file in pieces of rows, with lines for messages and memory that does not grow with the file."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from netcl.data.budget import Budget
from netcl.data.reading import opened
from netcl.data.tables.cells import Cells, Chunk, TableError

__all__ = ["CSVSource"]

# Characters of a line and of a cell: a file without line ends, or with a quote that never closes, ends here.
_LONGEST = 1 << 20
# Rows that are read between two checks of the limit.
_READ_AT_ONCE = 256
_MARKS = (",", ";", "\t", "|")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
# The limit of a cell's length belongs to the whole process.
_cell_limit = threading.Lock()


@dataclass(frozen=True)
class CSVSource:
    """A text file with a row per line, separated by ``delimiter`` (None: the most frequent of ``, ; | tab`` in the
    first line); ``encoding`` is UTF-8 unless a mark at the beginning says UTF-16.
    """

    path: Path
    missing_values: frozenset[str]
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    header: bool = True
    budget: Budget | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        """Returns the names of the columns. Raises TableError if the file is empty, or a name is given twice."""
        for _, row in self._rows():
            names = [cell.strip() for cell in row] if self.header else [str(number) for number in range(len(row))]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise TableError(f"{self.path}, line 1: two columns have the name {twice!r}; rename one")
            return names
        raise TableError(f"{self.path} holds no rows of data")

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yields the rows in pieces of ``size``. Raises TableError with the line of a row of another length."""
        names = self.names()
        rows = self._rows()
        if self.header:
            next(rows)
        first = 0
        lines: list[int] = []
        taken: list[list[str]] = []
        for line, row in rows:
            if len(row) != len(names):
                raise TableError(f"{self.path}, line {line}: expected {len(names)} cells, got {len(row)}")
            lines.append(line)
            taken.append(row)
            if len(taken) == size:
                yield self._chunk(first, names, lines, taken)
                first, lines, taken = first + size, [], []
        if taken:
            yield self._chunk(first, names, lines, taken)

    def _chunk(self, first: int, names: list[str], lines: list[int], rows: list[list[str]]) -> Chunk:
        place = _Lines(self.name, lines)
        columns = {
            name: Cells(name, [cell.strip() for cell in column], place, self.missing_values, self.decimal)
            for name, column in zip(names, zip(*rows))
        }
        return Chunk(first, columns, len(rows))

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields line and cells of each row that is not empty."""
        with opened(self.path, self.budget, kind="table") as (binary, _):
            start = binary.read(4)
            binary.seek(0)
            wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            plain = self.encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
            encoding = "utf-16" if wide and plain else "utf-8-sig" if plain else self.encoding
            errors = "surrogateescape" if encoding == "utf-8-sig" else "strict"
            text = io.TextIOWrapper(binary, encoding, errors=errors, newline="")
            try:
                lines = _Limited(self.path, text, encoding)
                mark = self.delimiter or _most_frequent(lines)
                reader = csv.reader(lines, delimiter=mark)
                while rows := self._some(reader):
                    yield from (numbered for numbered in rows if any(numbered[1]))
            finally:
                text.detach()  # `opened` closes the file

    def _some(self, reader: Any) -> list[tuple[int, list[str]]]:
        """Returns line and cells of the next rows; none at the end."""
        with _cell_limit:
            before = csv.field_size_limit(_LONGEST)
            try:
                return [(reader.line_num, row) for row in islice(reader, _READ_AT_ONCE)]
            except csv.Error as error:
                raise TableError(f"{self.path}, line {reader.line_num}: {error}") from error
            finally:
                csv.field_size_limit(before)


@dataclass(frozen=True)
class _Lines:
    """Says the line of a row of a file."""

    name: str
    lines: Sequence[int]

    def __call__(self, index: int) -> str:
        return f"{self.name}, line {self.lines[index]}"


class _Limited:
    """The lines of a text, each with a limited length and checked for bytes that are not of its encoding."""

    def __init__(self, path: str | os.PathLike[str], text: TextIO | Any, encoding: str) -> None:
        self.path, self.text, self.encoding = path, text, encoding
        self.number = 0
        self.waiting: list[str] = []

    def first(self) -> str:
        """Returns the first line, which is read again by the iteration."""
        line = next(self, "")
        self.waiting, self.number = [line] if line else [], 0
        return line

    def __iter__(self) -> _Limited:
        return self

    def __next__(self) -> str:
        if self.waiting:
            self.number += 1
            return self.waiting.pop()
        self.number += 1
        try:
            line = str(self.text.readline(_LONGEST))
        except UnicodeError as error:
            raise TableError(
                f"{self.path}, line {self.number} or one of the next: not {self.encoding}: {error}"
            ) from error
        if not line:
            raise StopIteration
        if len(line) >= _LONGEST and not line.endswith(("\n", "\r")):
            raise TableError(f"{self.path}, line {self.number}: the line is longer than {_LONGEST:,} characters")
        if not line.isascii() and (found := _NOT_UTF8.search(line)):
            byte = ord(found[0]) - 0xDC00
            raise TableError(
                f"{self.path}, line {self.number}: byte 0x{byte:02x} at character {found.start() + 1} is not UTF-8; if "
                'the whole file has another encoding, write encoding="cp1252" (or its name)'
            )
        return line


def _most_frequent(lines: _Limited) -> str:
    line = lines.first()
    return max(_MARKS, key=line.count)
