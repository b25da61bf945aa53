"""Files of tables from strangers: wrong cells, encodings and lines are errors with file and line; memory is flat."""

from __future__ import annotations

import csv
import io
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from netcl.data import Budget, Table, TableError
from netcl.data.tables import csv_file


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


def test_a_cell_that_is_no_number_among_numbers_is_named(file: Path) -> None:
    rows = [str(number) for number in range(20)]
    rows[17] = "12o"
    with pytest.raises(TableError, match=r"t\.csv, line 19, column 'a': '12o' is no number .* 19 of 20 values"):
        Table(write(file, "a\n" + "\n".join(rows))).kinds()
    assert Table(file, missing_values=["12o"]).kinds() == {"a": "number"}
    assert Table(file, types={"a": "category"}).kinds() == {"a": "category"}


@pytest.mark.parametrize("cell", ["1_000", "1e300", "inf", "0x1f", "1,5"])
def test_only_finite_numbers_within_float32_are_numbers(cell: str, file: Path) -> None:
    write(file, "a;b\n" + "\n".join(f"{number};1" for number in range(12)) + f"\n{cell};1\n")
    with pytest.raises(TableError, match=r"t\.csv, line 14, column 'a': .* is no number within float32"):
        Table(file).kinds()


def test_a_date_that_is_none_is_named(file: Path) -> None:
    days = [f"2024-01-{day:02}" for day in range(1, 13)]
    write(file, "day\n" + "\n".join([*days, "2024-13-01"]) + "\n")
    with pytest.raises(TableError, match=r"t\.csv, line 14, column 'day': '2024-13-01' is no date"):
        Table(file).kinds()


def test_a_wrong_type_at_prediction_is_named(file: Path) -> None:
    encoding = Table({"a": [1.0, 2.0]}).fit()
    with pytest.raises(TableError, match=r"t\.csv, line 3, column 'a': 'x' is no number .* as the column had in"):
        encoding.dataset(Table(write(file, "a\n1\nx\n")))
    with pytest.raises(TableError, match=r"t\.csv has no column 'a', which the model reads; it has b"):
        encoding.dataset(Table(write(file, "b\n1\n")))


def test_a_target_that_is_missing_or_unknown_is_named(file: Path) -> None:
    encoding = Table({"x": [1.0, 2.0], "y": ["a", "b"]}, target="y").fit()
    with pytest.raises(TableError, match=r"t\.csv, line 2, column 'y': 'c' is no class that was seen .* a, b"):
        encoding.dataset(Table(write(file, "x,y\n1,c\n")))
    with pytest.raises(TableError, match=r"t\.csv, line 3, column 'y': the target is missing"):
        encoding.dataset(Table(write(file, "x,y\n1,a\n2,\n")))
    with pytest.raises(TableError, match="the target 'y' has no values"):
        Table(write(file, "x,y\n1,\n2,\n"), target="y").fit()


def test_rows_of_another_length_are_named(file: Path) -> None:
    with pytest.raises(TableError, match=r"t\.csv, line 4: expected 2 cells, got 3"):
        len(Table(write(file, 'a,b\n1,"x\ny"\n1,2,3\n')))


@pytest.mark.parametrize("content", ["", "\n\n", "a,b\n"])
def test_a_table_without_rows_is_an_error(content: str, file: Path) -> None:
    with pytest.raises(TableError, match=r"t\.csv holds no rows of data"):
        len(Table(write(file, content)))


def test_two_columns_of_one_name_are_an_error(file: Path) -> None:
    with pytest.raises(TableError, match=r"line 1: two columns have the name 'a'"):
        Table(write(file, "a,b,a\n1,2,3\n"))


# -- encodings ---------------------------------------------------------------------------------------------------------


def test_mixed_encodings_are_an_error_with_the_line(file: Path) -> None:
    write(file, "city,x\nZürich,1\n".encode() + "Köln,2\n".encode("cp1252"))
    with pytest.raises(TableError, match=r"t\.csv, line 3: byte 0xf6 at character 2 is not UTF-8; .*cp1252"):
        len(Table(file))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_other_encodings_are_read(encoding: str, file: Path) -> None:
    write(file, "city,x\nZürich,1\nKöln,2\n".encode(encoding))
    table = Table(file, encoding=encoding if encoding == "cp1252" else "utf-8")
    assert table.columns == ["city", "x"]
    assert sorted(table.facts["city"].distinct or ()) == ["Köln", "Zürich"]


def test_a_damaged_utf16_file_is_an_error_with_the_line(file: Path) -> None:
    write(file, "a\n1\n".encode("utf-16") + b"\x00\xd8")
    with pytest.raises(TableError, match=r"t\.csv, line \d or one of the next: not utf-16"):
        len(Table(file))


# -- marks -------------------------------------------------------------------------------------------------------------


def test_the_delimiter_is_found_and_the_decimal_mark_given(file: Path) -> None:
    for mark in ",;\t|":
        assert Table(write(file, f"a{mark}b\n1{mark}2\n")).columns == ["a", "b"]
    table = Table(write(file, "a;b\n1,5;2\n2,5;3\n"), decimal=",")
    assert table.fit(standardize=False).dataset(table).arrays[0].tolist() == [[1.5, 2], [2.5, 3]]
    assert Table(write(file, "1,2\n3,4\n"), header=False).columns == ["0", "1"]


def test_quoted_cells_hold_marks_and_lines(file: Path) -> None:
    table = Table(write(file, 'a,b\n"x, ""y""\nz",1\nw,2\n'))
    assert sorted(table.facts["a"].distinct or ()) == ["w", 'x, "y"\nz']


# -- size --------------------------------------------------------------------------------------------------------------


def test_a_file_without_line_ends_or_quotes_that_close_stops_early(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "_LONGEST", 1000)
    with pytest.raises(TableError, match=r"t\.csv, line 1: the line is longer than 1,000 characters"):
        len(Table(write(file, "a" * 5000)))
    with pytest.raises(TableError, match=r"t\.csv, line \d+: field larger than field limit"):
        len(Table(write(file, 'a\n"' + "1\n" * 3000)))


def test_a_folder_and_a_pipe_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it is no regular file"):
        Table(tmp_path)
    with pytest.raises(FileNotFoundError):
        Table(tmp_path / "none.csv")


def test_a_parquet_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    """Without pyarrow the error says what to install."""
    with pytest.raises((ValueError, ImportError), match="no Parquet file|netcl-data\\[parquet\\]"):
        Table(write(tmp_path / "t.parquet", b"PAR1 nothing"))


def peak(path: Path) -> int:
    """Returns the most bytes that are allocated while a table is fitted and encoded into a file."""
    tracemalloc.start()
    try:
        table = Table(path, target="y", budget=Budget(bytes=1 << 20))
        train, _ = table.split(0.9)
        assert len(train.fit(missing="median").dataset(train, memory=1 << 16)) > 0.8 * len(table)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_a_table_does_not_grow_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the rows need as much memory."""
    monkeypatch.setattr(csv_file, "_BLOCK", 1 << 14)
    monkeypatch.setattr("netcl.data.tables.columns._DISTINCT", 100)
    monkeypatch.setattr("netcl.data.tables.columns._SAMPLED", 1 << 12)
    monkeypatch.setattr("netcl.data.tables.table._ROWS", 1 << 10)
    rng = np.random.default_rng(0)
    peaks = []
    for rows in (20_000, 80_000):
        values = rng.normal(size=(rows, 3))
        cities = np.array(["Paris", "Rome", "Oslo", ""])[rng.integers(0, 4, rows)]
        lines = [f"{a:.6f},{b:.6f},{c:.6f},{city},{a + b:.6f}" for (a, b, c), city in zip(values, cities)]
        peaks.append(peak(write(tmp_path / f"{rows}.csv", "a,b,c,city,y\n" + "\n".join(lines))))
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < (tmp_path / "80000.csv").stat().st_size


# -- numbers and lines without objects of Python ---------------------------------------------------------------------

NUMBERS = [
    *("0", "-0", "+7", "1.", ".5", "-.25", ".", "-", "+", "--1", "1-", "1.2.3", "1e5", "-1E-3", "inf", "nan", "0.1"),
    *("1_0", "0x1f", "9007199254740992", "9007199254740993", "999999999999999", "0.123456789012345", "1,5", "١٢"),
    *("-0.12345678901234", "12345678.87654321", "1234567890123.45", "-99999999999999.9", "00012.500", "3.4028235e38"),
    "340282346638528859811704183484516925440.0",
]


def cells_of(column: str, file: Path, decimal: str = ".") -> list[tuple[bytes, bool]]:
    """Returns bits and validity of each number of a column, by the arrays or, with a quote in the line, by csv."""
    chunks = Table(file, delimiter=";", decimal=decimal).chunks()
    values = [chunk.columns[column].numbers() for chunk in chunks]
    return [(number.tobytes(), bool(wrong)) for numbers, flags in values for number, wrong in zip(numbers, flags)]


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_by_arrays_are_those_of_float(decimal: str, file: Path) -> None:
    """The same cells within quotes are read by the csv module and float()."""
    rng = np.random.default_rng(0)
    drawn = [f"{value:.{digits}f}" for digits in range(12) for value in rng.normal(size=200) * 10.0 ** (digits - 2)]
    texts = [text.replace(".", decimal) for text in [*NUMBERS, *drawn, *map(repr, rng.normal(size=500))]]
    write(file, "a;b\n" + "\n".join(f"{text};1" for text in texts) + "\n")
    fast = cells_of("a", file, decimal)
    write(file, "a;b\n" + "\n".join(f'"{text}";1' for text in texts) + "\n")
    assert fast == cells_of("a", file, decimal)
    expected = next(at for at, text in enumerate(texts) if text == "0" + decimal + "1")
    assert fast[expected] == (np.float64(0.1).tobytes(), False)


LINES = [
    *("1,a\n", " 2 ,\tb c \n", "3,\n", ",x\n", "NA,null\n", "\n", ",\n", "4,d\r\n", "\r\n", '5,"e,\n""f"""\n'),
    *('"6",g\n', "7,Zürich\n", "8,\xa0h\n", "9,\x1fi\n", "10,longer than sixteen bytes\n", "?,n/a\n", '11,j"k\n'),
    "12,\x00l\n",  # Python 3.10's csv refuses it
]


@pytest.mark.parametrize("seed", range(8))
def test_lines_by_arrays_are_those_of_the_csv_module(seed: int, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of every kind after each other: cells, missing ones and lines."""
    monkeypatch.setattr(csv_file, "_BLOCK", 24)
    drawn = np.random.default_rng(seed).integers(0, len(LINES) - (sys.version_info < (3, 11)), 60)
    content = "x,y\n" + "".join(LINES[at] for at in drawn)
    write(file, content if seed % 2 else content.rstrip("\n"))
    reader = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
    next(reader)
    expected = [(reader.line_num, *(cell.strip() for cell in row)) for row in reader if any(row)]
    got = []
    for chunk in Table(file, delimiter=",").chunks(7):
        x, y = chunk.columns["x"], chunk.columns["y"]
        assert chunk.first == len(got)
        assert x.missing.tolist() == [text in x.missing_values for text in x.texts()]
        assert y.missing.tolist() == [text in y.missing_values for text in y.texts()]
        places = [int(x.place(at).rpartition(" ")[2]) for at in range(len(chunk))]
        got += list(zip(places, x.texts(), y.texts()))
    assert got == expected


@pytest.mark.parametrize("row", ["1,2,3\n", "1\n", '1,"2",3\n'])
def test_a_row_of_another_length_deep_in_a_file_is_named(row: str, file: Path) -> None:
    """Two lines of which one has a cell too many and one a cell too few, too."""
    for bad in (row, f"{row}1\n"):
        write(file, "a,b\n" + "1,2\n" * 30_000 + bad + "1,2\n" * 9)
        with pytest.raises(TableError, match=r"t\.csv, line 30002: expected 2 cells, got [13]"):
            len(Table(file))


def test_most_lines_are_read_without_the_csv_module(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quote slows down its block only."""
    slow = []
    split = csv_file._columns
    monkeypatch.setattr(csv_file, "_columns", lambda *given: slow.append(split(*given) is None) or split(*given))
    write(file, "a,b\n" + "1,2\n" * 400_000 + '"3",4\n' + "1,2\n" * 400_000)
    table = Table(file)
    assert len(table) == 800_001
    assert sum(slow) == 1
    assert len(slow) > 5
    assert table.facts["a"].numbers.high == 3
