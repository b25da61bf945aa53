"""CSV tables: cells of every kind of text, quotes and delimiters in wrong places."""

from __future__ import annotations

import random

from registry import Run, attack

from netcl.data import CSVDataset

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
