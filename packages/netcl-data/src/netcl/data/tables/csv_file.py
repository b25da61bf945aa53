"""CSVSource: a CSV file in pieces of rows, with lines for messages and memory that does not grow with the file."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from netcl.data.budget import Budget
from netcl.data.reading import opened
from netcl.data.tables.cells import Cells, Chunk, TableError, pieces
from netcl.data.tables.packed_texts import PackedTexts, columns_of

# Characters of a line and of a cell: a file without line ends, or with a quote that never closes, ends here.
_LONGEST = 1 << 20
# Characters that are read at once.
_BLOCK = 1 << 19
_STRICT_BLOCK = 1 << 13
_MARKS = (",", ";", "\t", "|")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
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
        with self._opened() as lines:
            return self._names(csv.reader(lines, delimiter=lines.mark), lines)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yields the rows in pieces of ``size``. Raises TableError with the line of a row of another length."""
        with self._opened() as lines:
            reader = csv.reader(lines, delimiter=lines.mark)
            if self.header:
                names = self._names(reader, lines)
            else:
                names = self.names()
            first = 0
            while block := lines.block():
                columns: list[Any] | None = _columns(block, lines.mark, len(names))
                numbers: Sequence[int]
                if columns is None:
                    lines.give_back(block)
                    numbers, columns = self._rows(reader, lines, len(names))
                else:
                    numbers = range(lines.number + 1, lines.number + 1 + len(columns[0]))
                    lines.number = numbers[-1]
                for rows in pieces(size, len(numbers)):
                    place = _Lines(self.name, numbers[rows])
                    cells = {
                        name: Cells(name, column[rows], place, self.missing_values, self.decimal)
                        for name, column in zip(names, columns)
                    }
                    yield Chunk(first, cells, len(numbers[rows]))
                    first += len(numbers[rows])

    @contextmanager
    def _opened(self) -> Iterator[_Limited]:
        with opened(self.path, self.budget, kind="table") as (binary, _):
            start = binary.read(4)
            binary.seek(0)
            wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            plain = self.encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
            encoding = "utf-16" if wide and plain else "utf-8-sig" if plain else self.encoding
            errors = "surrogateescape" if encoding == "utf-8-sig" else "strict"
            text = io.TextIOWrapper(binary, encoding, errors=errors, newline="")
            try:
                yield _Limited(self.path, text, encoding, self.delimiter)
            finally:
                text.detach()  # `opened` closes the file

    def _names(self, reader: Any, lines: _Limited) -> list[str]:
        """Reads the first row that is not empty, and returns the names of the columns."""
        with closing(self._checked(reader, lines)) as checked:
            row = next(filter(any, checked), None)
        if row is None:
            raise TableError(f"{self.path} holds no rows of data")
        names = [cell.strip() for cell in row] if self.header else [str(number) for number in range(len(row))]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise TableError(f"{self.path}, line 1: two columns have the name {twice!r}; rename one")
        return names

    def _rows(self, reader: Any, lines: _Limited, width: int) -> tuple[list[int], list[Any]]:
        """Returns lines and columns of the rows that begin in the lines that were given back, without empty ones."""
        numbers, rows = [], []
        with closing(self._checked(reader, lines)) as checked:
            for row in checked:
                if any(row):
                    if len(row) != width:
                        raise TableError(f"{self.path}, line {lines.number}: expected {width} cells, got {len(row)}")
                    numbers.append(lines.number)
                    rows.append(row)
                if not lines.waiting:
                    break
        return numbers, [[cell.strip() for cell in column] for column in zip(*rows)]

    def _checked(self, reader: Any, lines: _Limited) -> Generator[list[str], None, None]:
        """Yields rows of the reader with a limited length of each cell."""
        with _cell_limit:
            before = csv.field_size_limit(_LONGEST)
            try:
                yield from reader
            except csv.Error as error:
                raise TableError(f"{self.path}, line {lines.number}: {error}") from error
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
    """The lines of a text, each with a limited length and checked for bytes that are not of its encoding; ``number`` is
    the line that was read last, ``mark`` separates cells.
    """

    def __init__(self, path: str | os.PathLike[str], text: TextIO | Any, encoding: str, mark: str | None) -> None:
        self.path, self.text, self.encoding = path, text, encoding
        self.number = 0
        self.waiting: list[str] = []  # the next lines, last first
        self.mark: str = mark or self._most_frequent()

    def _most_frequent(self) -> str:
        line = next(self, "")
        self.number = 0
        self.give_back(line)
        return max(_MARKS, key=line.count)

    def block(self) -> str:
        """Returns some of the next lines as they are, none at the end."""
        if self.waiting:
            block = "".join(reversed(self.waiting))
            self.waiting = []
            return block
        # Of a strict decoder the error has no place: with few characters the line of the message is near.
        text = self._read(min(_LONGEST, _STRICT_BLOCK if self.text.errors == "strict" else _BLOCK))
        return text if not text or text.endswith("\n") else text + self._read(None)

    def give_back(self, block: str) -> None:
        """Makes the lines of a block the next ones of the iteration."""
        self.waiting = list(io.StringIO(block, newline=""))[::-1]

    def _read(self, characters: int | None) -> str:
        """Returns characters, or (None) the rest of the line."""
        try:
            return str(self.text.readline(_LONGEST) if characters is None else self.text.read(characters))
        except UnicodeError as error:
            raise TableError(
                f"{self.path}, line {self.number + 1} or one of the next: not {self.encoding}: {error}"
            ) from error

    def __iter__(self) -> _Limited:
        return self

    def __next__(self) -> str:
        line = self.waiting.pop() if self.waiting else self._read(None)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > _LONGEST or (len(line) == _LONGEST and not line.endswith(("\n", "\r"))):
            raise TableError(f"{self.path}, line {self.number}: the line is longer than {_LONGEST:,} characters")
        if not line.isascii() and (match := _NOT_UTF8.search(line)):
            byte = ord(match[0]) - 0xDC00
            raise TableError(
                f"{self.path}, line {self.number}: byte 0x{byte:02x} at character {match.start() + 1} is not UTF-8; if "
                'the whole file has another encoding, write encoding="cp1252" (or its name)'
            )
        return line


def _columns(block: str, mark: str, width: int) -> list[PackedTexts] | None:
    """Returns the cells of lines by column; None for lines that the csv module reads: with quotes, with another number
    of cells, empty or wrong ones.
    """
    if '"' in block or "\0" in block or not mark.isascii():
        return None
    if not block.isascii() and (_NOT_UTF8.search(block) or _WIDE_SPACE.search(block)):
        return None
    if "\r" in block:
        block = block.replace("\r\n", "\n")
    block = block if block.endswith("\n") else f"{block}\n"
    if "\r" in block or len(block) - block.rfind("\n", 0, -1) > _LONGEST:
        return None
    return columns_of(block.encode(), mark.encode(), width)
