"""TableDataset: the encoded rows of a table as arrays in memory, or mapped from a temporary file if they are large."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from netcl.data.dataset import ArrayDataset

# Of a .npy file: room for a shape of any size.
_HEAD = 192


class TableDataset(ArrayDataset):
    """Samples (float32 (features,), target), with int64 (categories,) between them if there are embeddings; ``classes``
    are the names of the classes or labels. Large arrays are mapped, and worker processes map them too.
    """

    def __init__(self, arrays: Iterable[npt.NDArray[Any]], classes: list[str] | None, paths: list[Path]) -> None:
        super().__init__(*arrays)
        self.classes: list[str] | None = classes
        self.paths: list[Path] = paths

    def __reduce__(self) -> Any:
        if not self.paths:
            return type(self), (self.arrays, self.classes, [])
        return _mapped, (self.paths, self.classes)


def _mapped(paths: list[Path], classes: list[str] | None) -> TableDataset:
    return TableDataset([np.load(path, mmap_mode="r") for path in paths], classes, paths)


def write_rows(pieces: Iterable[tuple[npt.NDArray[Any], ...]], classes: list[str] | None, memory: int) -> TableDataset:
    """Returns the rows of all pieces as one dataset; beyond ``memory`` bytes they are written to files as they come.

    Raises ValueError if there is no row.
    """
    kept: list[tuple[npt.NDArray[Any], ...]] = []
    nbytes = 0
    files: _Files | None = None
    try:
        for arrays in pieces:
            kept.append(arrays)
            nbytes += sum(array.nbytes for array in arrays)
            if files is not None or nbytes > memory:
                files = files or _Files()
                for piece in kept:
                    files.add(piece)
                kept = []
        if files is None:
            if not kept:
                raise ValueError("the table holds no rows in this part")
            return TableDataset([np.concatenate(columns) for columns in zip(*kept)], classes, [])
        dataset = _mapped(files.close(), classes)
    except BaseException:
        if files is not None:
            files.remove()
        raise
    weakref.finalize(dataset, _remove, files.folder, os.getpid())
    return dataset


def _remove(folder: Path, process: int) -> None:
    """Removes the files at the end of the process that wrote them."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class _Files:
    """One .npy file for each array, written piece by piece; the header follows at the end."""

    def __init__(self) -> None:
        self.folder: Path = Path(tempfile.mkdtemp(prefix="netcl-table-"))
        self.files: list[BinaryIO] = []
        self.shapes: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self.rows = 0

    def add(self, arrays: tuple[npt.NDArray[Any], ...]) -> None:
        if not self.files:
            self.files = [(self.folder / f"{number}.npy").open("wb+") for number in range(len(arrays))]
            self.shapes = [(array.shape[1:], array.dtype) for array in arrays]
            for file in self.files:
                file.write(b"\0" * _HEAD)
        for file, array in zip(self.files, arrays):
            file.write(np.ascontiguousarray(array).data)
        self.rows += len(arrays[0])

    def close(self) -> list[Path]:
        """Writes the headers and returns the paths."""
        for file, (shape, dtype) in zip(self.files, self.shapes):
            text = repr({"descr": dtype.str, "fortran_order": False, "shape": (self.rows, *shape)})
            head = b"\x93NUMPY\x01\x00" + (_HEAD - 10).to_bytes(2, "little") + text.encode("latin1")
            file.seek(0)
            file.write(head.ljust(_HEAD - 1) + b"\n")
            file.close()
        return [self.folder / f"{number}.npy" for number in range(len(self.files))]

    def remove(self) -> None:
        """Removes everything."""
        for file in self.files:
            file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
