"""Files of netcl.data: IDX and its gzip form, ``.npy`` headers, pickles of arrays."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import NUMBERS, byte_edits, edited, instructions, program
from netcl.data import NpyDataset
from netcl.data.datasets import CIFAR10
from netcl.data.readers import read_idx

HEADERS = (
    *("'descr': '<f4'", "'fortran_order': False", "'shape': (3, 4)", "(", ")", "{", "}", ",", "'", "\\", "#", "\n"),
    *(
        "'shape': (-1,)",
        "'shape': (10**9,)",
        "'shape': (1000000000000000000000,)",
        "'descr': '|O'",
        "'descr': [('a','<f4')]",
    ),
    *("'descr': '<U1000000000'", "'descr': 'M8[ns]'", "[" * 300, "0x", "1e5", "None", "\0", "'shape': ((3,),)", "L"),
)


@attack("formats.idx")
def idx(run: Run) -> None:
    """An IDX file is read, or refused with a ValueError."""
    good = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))
    plain = Judge(run, "-images-idx3-ubyte", lambda path: read_idx(path, 3), good, (ValueError,))
    packed = Judge(run, ".gz", lambda path: read_idx(path, 3), gzip.compress(good), (ValueError,))
    for rng in run.cases():
        changed = edited(good, byte_edits(good, rng))
        if rng.random() < 0.3:
            sizes = [rng.choice(NUMBERS) & 0xFFFFFFFF for _ in range(3)]
            changed = good[:4] + struct.pack(">3I", *sizes) + changed[16:]
        if rng.random() < 0.5:
            plain.whole(changed)
        else:
            whole = gzip.compress(changed, mtime=0)
            edits = byte_edits(whole, rng) if rng.random() < 0.5 else []
            packed.whole(edited(whole, edits))


@attack("formats.npy")
def npy(run: Run) -> None:
    """A .npy file is mapped, or refused with a ValueError."""
    file = io.BytesIO()
    np.save(file, np.arange(12, dtype=np.float32).reshape(3, 4))
    good = file.getvalue()

    def read(path: Path) -> Any:
        return NpyDataset(path)[0]

    judge = Judge(run, ".npy", read, good, (ValueError,))
    for rng in run.cases():
        if rng.random() < 0.4:
            judge.case(byte_edits(good, rng), lambda edits: edited(good, edits))
            continue
        pieces = ["{'descr': '<f4', ", "'fortran_order': False, ", "'shape': (3, 4)", ", }"]
        for _ in range(rng.choice((1, 2, 4))):
            pieces[rng.randrange(len(pieces))] = rng.choice(HEADERS)
            pieces.insert(rng.randrange(len(pieces)), rng.choice(HEADERS))

        def build(parts: Any, version: int = rng.choice((1, 1, 2, 3))) -> bytes:
            text = "".join(parts).encode("utf-8") + b"\n"
            size = struct.pack("<H" if version == 1 else "<I", len(text) & (0xFFFF if version == 1 else 0xFFFFFFFF))
            return b"\x93NUMPY" + bytes([version, 0]) + size + text + good[-48:]

        judge.case(pieces, build)


@attack("formats.array_pickle")
def array_pickles(run: Run) -> None:
    """A pickle of arrays is read, or refused with a ValueError, and nothing in it is run."""
    folder = run.folder / "cifar-10-batches-py"
    folder.mkdir()
    images = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2], b"names": ["a", ("b", 2.5)]}
    good = pickle.dumps(images, 2)
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"] * 10}, 2))

    def read(path: Path) -> Any:
        (folder / "test_batch").write_bytes(path.read_bytes())
        try:
            return CIFAR10(run.folder, train=False)
        except ValueError as error:
            raise ValueError(str(error).replace(str(folder), str(path))) from error

    judge = Judge(run, ".pickle", read, good, (ValueError,))
    base = instructions(good)
    for rng in run.cases():
        if rng.random() < 0.3:
            judge.case(byte_edits(good, rng), lambda edits: edited(good, edits))
        else:
            judge.case(program(base, rng), b"".join)
