"""CSV tables: cells of every kind of text, quotes and delimiters in wrong places."""

from __future__ import annotations

import json
import random

import numpy as np
from registry import Run, attack

from netcl.data import CSVDataset, Table, TableEncoding

CELLS = (
    "1",
    "-2.5",
    "1e9",
    "1e999",
    "nan",
    "",
    " 3 ",
    "1_000",
    "0x10",
    "\u0661",
    '"',
    '"a"',
    "\0",
    "9" * 30,
    "a,b",
    "é",
)
ENDS = ("\n", "\r\n", "\r", "\n\n", "")


def table(rng: random.Random) -> bytes:
    """Returns a table, most often one with a fault."""
    columns = rng.randrange(1, 5)
    rows = [[f"c{at}" for at in range(columns)]]
    for _ in range(rng.randrange(6)):
        width = columns if rng.random() < 0.9 else rng.randrange(8)
        rows.append([rng.choice(CELLS) if rng.random() < 0.3 else str(rng.randrange(100)) for _ in range(width)])
    text = "".join(",".join(row) + rng.choice(ENDS if rng.random() < 0.2 else ("\n",)) for row in rows)
    data = bytearray(text.encode("utf-8" if rng.random() < 0.9 else "utf-16"))
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


@attack("formats.csv")
def csv(run: Run) -> None:
    """A table is read, or refused with a ValueError that names its file."""
    path = run.folder / "table.csv"
    for rng in run.cases():
        data = table(rng)
        path.write_bytes(data)
        target = rng.choice((None, 0, -1, "c0"))
        try:
            CSVDataset(path, target)
            run.count("read")
        except ValueError as error:
            run.count("refused")
            if str(path) not in str(error):
                run.fail("a ValueError without the file", reproducer=str(error)[:200], data=data, suffix=".csv")
        except Exception as error:
            kind = type(error).__name__
            run.fail(f"{kind} instead of ValueError", reproducer=str(error)[:200], data=data, suffix=".csv")


@attack("formats.tables")
def tables(run: Run) -> None:
    """A table of mixed columns is fitted and encoded into finite numbers, or refused with a ValueError that names its
    file or a column.
    """
    path = run.folder / "mixed.csv"
    for rng in run.cases():
        data = table(rng)
        path.write_bytes(data)
        missing = rng.choice(("mean", "median", "flag", 0.0, "error"))
        categories = rng.choice(("one-hot", "embedding"))
        try:
            whole = Table(path, target=rng.choice((None, "c0")))
            encoding = whole.fit(missing=missing, categories=categories)
            arrays = encoding.dataset(whole).arrays
            again = TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
            run.count("read")
        except ValueError as error:
            run.count("refused")
            if str(path) not in str(error) and "column" not in str(error) and "target" not in str(error):
                run.fail("a ValueError without the file", reproducer=str(error)[:200], data=data, suffix=".csv")
        except Exception as error:
            kind = type(error).__name__
            run.fail(f"{kind} instead of ValueError", reproducer=str(error)[:200], data=data, suffix=".csv")
        else:
            if again != encoding:
                run.fail("the stored encoding is another one", data=data, suffix=".csv")
            if not all(np.isfinite(array).all() for array in arrays):
                run.fail("an encoded value is not finite", data=data, suffix=".csv")
