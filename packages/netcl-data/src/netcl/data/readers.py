"""Readers: embedded digits, MNIST and CIFAR in their binary formats, image folders, .npy and CSV files."""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from netcl.data.budget import Budget
from netcl.data.dataset import ArrayDataset, Dataset, Indices
from netcl.data.image_files import opened_image, sized_planes
from netcl.data.reading import COMPRESSED, opened
from netcl.data.sample_random import check_seed, sample_keys
from netcl.data.transforms.images import pillow

__all__ = [
    "CIFAR10Arrays",
    "CIFAR100Arrays",
    "CSVDataset",
    "ImageFolderArrays",
    "MNISTArrays",
    "NpyDataset",
    "example_digits",
]

PathLike = str | os.PathLike[str]

_DIGITS = Path(__file__).with_name("_digits.npz")
_DIGITS_COUNT = 1797
# Bytes that are read at once from a file that may be compressed.
_PIECE = 1 << 20


def example_digits(n: int = _DIGITS_COUNT, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Returns scanned handwritten digits: images float32 (n, 1, 8, 8) from 0 (paper) to 1 (ink), labels int64 (n,).

    A value is the number of black pixels in a 4 x 4 block, divided by 16. All 1,797 come in scikit-learn's order; a
    smaller ``n`` is a random subset by ``seed``, in the same order.

    Source: E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning Repository,
    https://doi.org/10.24432/C50P49, test part, CC BY 4.0 (see _digits_LICENSE.txt next to this module).

    Raises:
        ValueError: ``n`` is outside of [1, 1797].
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= _DIGITS_COUNT:
        raise ValueError(f"n must be an int from 1 to {_DIGITS_COUNT}, got {n!r}")
    with np.load(_DIGITS, allow_pickle=False) as stored:
        images, labels = stored["images"], stored["labels"]
    # Chosen by hashes, so that the subset is the same with every version of NumPy.
    chosen = np.sort(np.argsort(sample_keys(check_seed(seed), 0, np.arange(_DIGITS_COUNT)), kind="stable")[:n])
    return images[chosen, None].astype(np.float32) / np.float32(16), labels[chosen].astype(np.int64)


def _find(root: PathLike, folders: Sequence[str], names: Sequence[str], what: str) -> Path:
    """Returns the path of the first of ``names`` in ``root`` or one of its ``folders``."""
    base = Path(root)
    places = [base, *(base / folder for folder in folders)]
    for place in places:
        for name in names:
            if (place / name).is_file():
                return place / name
    raise FileNotFoundError(
        f"{what}: none of {', '.join(names)} in {', '.join(map(str, places))}; download the binary files and unpack "
        "them there"
    )


def read_idx(
    path: Path, dimensions: int, budget: Budget | None = None, dtype: npt.DTypeLike = np.uint8
) -> npt.NDArray[Any]:
    """Reads an IDX file of unsigned bytes (magic 0, 0, 8, rank; sizes as big-endian int32), plain or gzip, into an
    array of ``dtype``.

    The sizes decide how much is inflated, and ``budget`` limits them.

    Raises:
        ValueError: the magic or the rank is wrong, or the length does not match the sizes.
    """
    width = np.dtype(dtype).itemsize
    with opened(path, budget, COMPRESSED if path.suffix == ".gz" else 2 * width, "IDX file") as (file, meter):
        source: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        head = source.read(4 + 4 * dimensions)
        if len(head) != 4 + 4 * dimensions or head[:4] != bytes([0, 0, 8, dimensions]):
            raise ValueError(
                f"{path} is no IDX file of bytes with {dimensions} dimensions, it starts with {head[:4]!r}"
            )
        shape = [int(size) for size in np.frombuffer(head, ">u4", dimensions, 4)]
        count = math.prod(shape)
        meter.spend(count * width, f"an array of shape {shape}")
        data, filled = np.empty(count, dtype), 0
        # In pieces: GzipFile keeps a second copy of all that one call reads.
        while filled < count and (piece := source.read(min(_PIECE, count - filled))):
            data[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
        if filled < count or source.read(1):
            got = filled if filled < count else f"{count + 1} or more"
            raise ValueError(f"{path} should hold {count} values for shape {shape}, got {got}")
        return data.reshape(shape)


class MNISTArrays(ArrayDataset):
    """MNIST, or a dataset in its format (Fashion-MNIST, KMNIST): images uint8 (n, 1, H, W), labels int64 (n,).

    Reads ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte`` (``t10k-`` with ``train=False``), also with
    ``.gz``, in ``root``, ``root/MNIST/raw`` or ``root/raw``. ``transforms=to_float`` gives float32 in [0, 1]. Format:
    Y. LeCun, C. Cortes, C. Burges, the MNIST database. Nothing is downloaded.

    Raises:
        FileNotFoundError: a file is missing. ValueError: a file is damaged, or images and labels differ in number.
    """

    def __init__(self, root: PathLike, train: bool = True, *, budget: Budget | None = None) -> None:
        part = "train" if train else "t10k"
        images = read_idx(self._find(root, f"{part}-images", "idx3-ubyte"), 3, budget)
        labels = read_idx(self._find(root, f"{part}-labels", "idx1-ubyte"), 1, budget, np.int64)
        if len(images) != len(labels):
            raise ValueError(f"MNISTArrays in {root}: {len(images)} images and {len(labels)} labels")
        super().__init__(images[:, None], labels)

    @staticmethod
    def _find(root: PathLike, stem: str, kind: str) -> Path:
        names = [f"{stem}{mark}{kind}{suffix}" for mark in "-." for suffix in ("", ".gz")]
        return _find(root, ["MNIST/raw", "raw"], names, "MNISTArrays")


def _read_records(
    paths: Sequence[Path], label_bytes: int, budget: Budget | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Reads CIFAR records: labels, then 3072 bytes of a 3 x 32 x 32 image."""
    size = label_bytes + 3072
    parts = []
    for path in paths:
        with opened(path, budget, kind="CIFAR file") as (file, meter):
            meter.spend(2 * os.fstat(file.fileno()).st_size, "its records")  # read, and together with other files'
            data = np.frombuffer(file.read(), np.uint8)
        if not data.size or data.size % size:
            raise ValueError(f"{path} has {data.size} bytes, which is no positive multiple of a record's {size}")
        parts.append(data.reshape(-1, size))
    records = np.concatenate(parts)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, :label_bytes]


def _check_labels(labels: npt.NDArray[np.int64], classes: int, root: PathLike) -> npt.NDArray[np.int64]:
    if labels.size and labels.max() >= classes:
        raise ValueError(f"{root} holds label {labels.max()}, but there are {classes} classes: not the right files")
    return labels


class CIFAR10Arrays(ArrayDataset):
    """CIFAR-10, binary version: images uint8 (n, 3, 32, 32), labels int64 (n,).

    Reads ``data_batch_1.bin`` to ``data_batch_5.bin`` (``test_batch.bin`` with ``train=False``) in ``root`` or
    ``root/cifar-10-batches-bin``. Format: A. Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html. Nothing is
    downloaded. ``budget`` limits the memory that each file may take.

    Raises:
        FileNotFoundError: a file is missing. ValueError: a file is damaged.
    """

    def __init__(self, root: PathLike, train: bool = True, *, budget: Budget | None = None) -> None:
        names = [f"data_batch_{number}.bin" for number in range(1, 6)] if train else ["test_batch.bin"]
        paths = [_find(root, ["cifar-10-batches-bin"], [name], "CIFAR10Arrays") for name in names]
        images, labels = _read_records(paths, 1, budget)
        super().__init__(images, _check_labels(labels[:, 0].astype(np.int64), 10, root))


class CIFAR100Arrays(ArrayDataset):
    """CIFAR-100, binary version: images uint8 (n, 3, 32, 32), labels int64 (n,), of the 100 classes.

    ``coarse=True`` gives the 20 superclasses. Reads ``train.bin`` or ``test.bin`` in ``root`` or
    ``root/cifar-100-binary``. Nothing is downloaded. ``budget`` limits the memory that the file may take.

    Raises:
        FileNotFoundError: the file is missing. ValueError: it is damaged.
    """

    def __init__(
        self, root: PathLike, train: bool = True, coarse: bool = False, *, budget: Budget | None = None
    ) -> None:
        path = _find(root, ["cifar-100-binary"], ["train.bin" if train else "test.bin"], "CIFAR100Arrays")
        images, labels = _read_records([path], 2, budget)
        column, classes = (0, 20) if coarse else (1, 100)
        super().__init__(images, _check_labels(labels[:, column].astype(np.int64), classes, root))


class ImageFolderArrays(Dataset[tuple[Any, int]]):
    """Image files in one folder per class: samples (uint8 (3, H, W), class id); needs Pillow (extra ``image``).

    Classes are the folders of ``root`` in alphabetical order (``classes``); files are found at all depths. ``size`` (H,
    W) resizes; ``transform`` is applied to the array. A file is opened when its sample is read; one that is damaged, or
    has more pixels than ``budget`` allows for its size, raises ValueError then.

    Raises:
        ImportError: Pillow is missing. FileNotFoundError: there is no class folder, or one without images.
    """

    EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

    def __init__(
        self,
        root: PathLike,
        transform: Callable[[npt.NDArray[np.uint8]], Any] | None = None,
        *,
        size: tuple[int, int] | None = None,
        extensions: Sequence[str] = EXTENSIONS,
        budget: Budget | None = None,
    ) -> None:
        pillow("ImageFolderArrays")
        base = Path(root)
        self.budget: Budget | None = budget
        self.transform: Callable[..., Any] | None = transform
        self.size: tuple[int, int] | None = size
        self.classes: list[str] = sorted(entry.name for entry in base.iterdir() if entry.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"ImageFolderArrays: {base} has no folders; images are expected in {base}/<class>/")
        self.samples: list[tuple[Path, int]] = []
        endings = tuple(extension.lower() for extension in extensions)
        for label, name in enumerate(self.classes):
            files = sorted(path for path in (base / name).rglob("*") if path.name.lower().endswith(endings))
            if not files:
                raise FileNotFoundError(f"ImageFolderArrays: {base / name} has no file that ends in one of {endings}")
            self.samples += [(path, label) for path in files]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.samples[index]
        with opened_image(path, "ImageFolderArrays", self.budget) as image:
            array = sized_planes(image, self.size)
        return (array if self.transform is None else self.transform(array)), label


class NpyDataset(Dataset[Any]):
    """Memory-mapped .npy files with a common first axis: sample i is ``(a[i], b[i], ...)``, or ``a[i]`` of a single
    file.

    Only the rows of a batch are read. Worker processes open the files themselves. Pickled objects are refused.

    Raises:
        FileNotFoundError: a file is missing. ValueError: no file is given, a file is damaged, or the lengths differ.
    """

    def __init__(self, *paths: PathLike, budget: Budget | None = None) -> None:
        if not paths:
            raise ValueError("NpyDataset needs at least one file")
        self.paths: tuple[Path, ...] = tuple(Path(path).absolute() for path in paths)
        self.budget: Budget | None = budget
        self._open()

    def _open(self) -> None:
        maps = []
        for path in self.paths:
            with opened(path, self.budget, kind=".npy file of numbers") as (file, _):
                # NumPy reads a .npz under this name as well, and a pickle.
                if file.read(6) != b"\x93NUMPY":
                    raise ValueError(f"{path} is no .npy file of numbers: it does not begin as one")
                maps.append(np.load(path, mmap_mode="r", allow_pickle=False))
        self._data = ArrayDataset(*maps)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        sample = tuple(np.array(array[index]) for array in self._data.arrays)
        return sample[0] if len(sample) == 1 else sample

    def get_batch(self, indices: Indices) -> Any:
        """See ``ArrayDataset.get_batch``."""
        return self._data.get_batch(indices)

    def __reduce__(self) -> tuple[Callable[..., NpyDataset], tuple[Path, ...]]:
        return partial(type(self), budget=self.budget), self.paths


class CSVDataset(ArrayDataset):
    """A table of numbers: samples (float32 (columns,), target), or float32 (columns,) alone without ``target``.

    The first row holds the column names unless ``header=False``. ``target``: a column's name or number; negative
    numbers count from the end; the attribute ``target`` is its name. Targets that are all integers become int64, other
    numbers float32, texts int64 class ids in alphabetical order of ``classes``. Empty lines are skipped.

    Raises:
        ValueError: there are no rows, their lengths differ, the column does not exist, or a cell is not a number, is
            beyond float32 or, as a target, beyond int64 (with line and column).
    """

    def __init__(
        self,
        path: PathLike,
        target: str | int | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        budget: Budget | None = None,
    ) -> None:
        with opened(path, budget, kind="table") as (binary, _):
            rows = _rows(binary, delimiter)
        names = rows.pop(0)[1] if header and rows else [str(column) for column in range(len(rows[0][1]) if rows else 0)]
        if not rows:
            raise ValueError(f"{path} holds no rows of data")
        for line, row in rows:
            if len(row) != len(names):
                raise ValueError(f"{path}, line {line}: expected {len(names)} cells, got {len(row)}")
        self.columns: list[str] = [name.strip() for name in names]
        self.classes: list[str] | None = None
        chosen = None if target is None else self._column(target, path)
        self.target: str | None = None if chosen is None else self.columns[chosen]
        inputs = [column for column in range(len(names)) if column != chosen]
        x = np.empty((len(rows), len(inputs)), np.float32)
        for number, (line, row) in enumerate(rows):
            for place, column in enumerate(inputs):
                x[number, place] = self._number(row[column], path, line, column)
        self.columns = [self.columns[column] for column in inputs]
        if chosen is None:
            super().__init__(x)
        else:
            cells = [(line, row[chosen].strip()) for line, row in rows]
            super().__init__(x, self._targets(cells, path, names[chosen].strip()))

    def _column(self, target: str | int, path: PathLike) -> int:
        if isinstance(target, str):
            if target in self.columns:
                return self.columns.index(target)
        elif -len(self.columns) <= target < len(self.columns):
            return target % len(self.columns)
        raise ValueError(f"{path} has no column {target!r}, its {len(self.columns)} columns are {self.columns}")

    def _number(self, cell: str, path: PathLike, line: int, column: int) -> float:
        try:
            return _float32(cell)
        except ValueError as error:
            raise ValueError(f"{path}, line {line}, column {self.columns[column]!r}: {error}") from None

    def _targets(self, cells: Sequence[tuple[int, str]], path: PathLike, column: str) -> npt.NDArray[Any]:
        for line, cell in cells:
            if "_" in cell and _is_number(cell):
                raise ValueError(f"{path}, line {line}, column {column!r}: {cell[:80]!r} is no number")
        if all(_is_number(cell, int) for _, cell in cells):
            for line, cell in cells:
                if not -(2**63) <= int(cell) < 2**63:
                    raise ValueError(f"{path}, line {line}, column {column!r}: {cell[:80]!r} does not fit into int64")
            return np.array([int(cell) for _, cell in cells], np.int64)
        if all(_is_number(cell) for _, cell in cells):
            numbers = np.empty(len(cells), np.float32)
            for place, (line, cell) in enumerate(cells):
                try:
                    numbers[place] = _float32(cell)
                except ValueError as error:
                    raise ValueError(f"{path}, line {line}, column {column!r}: {error}") from None
            return numbers
        self.classes = sorted({cell for _, cell in cells})
        ids = {name: number for number, name in enumerate(self.classes)}
        return np.array([ids[cell] for _, cell in cells], np.int64)


_LARGEST = float(np.finfo(np.float32).max)


def _float32(cell: str) -> float:
    """Returns the number in a cell; raises ValueError if it is none, or beyond float32."""
    try:
        # Python reads 1_000 as a thousand, and no other reader of tables does.
        number = None if "_" in cell else float(cell)
    except ValueError:
        number = None
    if number is None:
        raise ValueError(f"{cell[:80]!r} is no number")
    if abs(number) > _LARGEST and "inf" not in cell.lower():
        raise ValueError(f"{cell[:80]!r} does not fit into float32")
    return number


def _is_number(cell: str, kind: Callable[[str], float] = float) -> bool:
    try:
        kind(cell)
    except ValueError:
        return False
    return True


# The limit of a cell's length belongs to the whole process.
_cell_limit = threading.Lock()


def _rows(file: BinaryIO, delimiter: str) -> list[tuple[int, list[str]]]:
    """Returns the rows that are not empty, each with its line; a cell may be as long as the file."""
    with _cell_limit:
        size = os.fstat(file.fileno()).st_size
        before = csv.field_size_limit(max(csv.field_size_limit(), min(size + 1, 2**31 - 1)))
        try:
            text = io.TextIOWrapper(file, "utf-8-sig", newline="")
            try:
                reader = csv.reader(text, delimiter=delimiter)
                return [(reader.line_num, row) for row in reader if row]
            finally:
                text.detach()  # the caller closes the file
        finally:
            csv.field_size_limit(before)
