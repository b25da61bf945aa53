"""The inputs of ``netcl predict`` in pieces: rows of tables, images of files and folders, and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data import DataFileError, ImageFolderArrays, NpyDataset, Table, TableEncoding, TableError
from netcl.data.image_files import opened_image, sized_planes
from netcl.trainer.cli.config import ConfigFileError
from netcl.trainer.cli.scaling import scaled

_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


@dataclass
class Piece:
    """Some samples: their names, the arrays of the model's inputs, the targets if they are known, and the messages of
    files that could not be read.
    """

    names: list[Any]
    inputs: tuple[npt.NDArray[Any], ...]
    targets: npt.NDArray[Any] | None = None
    broken: list[str] = field(default_factory=list)


def pieces_of(
    paths: Sequence[Path], about: dict[str, Any], encoding: TableEncoding | None, size: int
) -> Iterator[Piece]:
    """Yields the samples of all paths. Raises ConfigFileError for a file of another kind, or a table if the model was
    not trained on one, and DataFileError for a damaged table or array.
    """
    images: list[tuple[Path, str | None]] = []
    first = 0
    for path in paths:
        suffix = path.suffix.lower()
        if path.is_dir():
            images += _images_in(path)
        elif suffix in ImageFolderArrays.EXTENSIONS:
            images.append((path, None))
        elif suffix in _TABLES or suffix == ".npy":
            pieces = _rows(path, about, encoding) if suffix in _TABLES else _array(path, about, size)
            for piece in pieces:
                piece.names = [first + number for number in range(len(piece.names))]
                first += len(piece.names)
                yield piece
        else:
            known = ", ".join((".npy", *_TABLES, *ImageFolderArrays.EXTENSIONS))
            raise ConfigFileError(f"{path}: expected a folder or a file that ends in one of {known}")
    for at in range(0, len(images), size):
        yield _image_piece(images[at : at + size], about)


def _rows(path: Path, about: dict[str, Any], encoding: TableEncoding | None) -> Iterator[Piece]:
    if encoding is None:
        raise ConfigFileError(f"{path}: the model was not trained on a table; give arrays (.npy) or images")
    compared = True
    table = Table(path, missing_values=encoding.missing_values, **_reading(about))
    encoding.check_columns(table.columns, table.source.name)
    for chunk in table.chunks():
        targets = None
        if compared and encoding.target is not None and all(name in chunk.columns for name in encoding.target.names):
            try:
                targets = encoding.target.encode(chunk)
            except TableError as error:  # the rows have predictions nevertheless
                print(f"the targets are not compared: {error}")
                compared = False
        yield Piece(list(range(len(chunk))), encoding.encode(chunk), targets)


def _reading(about: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the reader that the model file keeps, checked."""
    kinds = {"delimiter": str, "decimal": str, "encoding": str, "header": bool}
    stored = about.get("reading") or {}
    return {
        name: stored[name]
        for name, kind in kinds.items()
        if isinstance(stored, dict) and type(stored.get(name)) is kind
    }


def _array(path: Path, about: dict[str, Any], size: int) -> Iterator[Piece]:
    dataset = NpyDataset(path)
    for at in range(0, len(dataset), size):
        rows = dataset.get_batch(np.arange(at, min(at + size, len(dataset))))
        # A model about which nothing is known gets the array as it is.
        yield Piece(list(range(len(rows))), (scaled(rows, about) if about else rows,))


def _images_in(folder: Path) -> list[tuple[Path, str | None]]:
    """Returns the images of a folder at all depths, each with the folder in which it is, as ImageFolder's classes."""
    paths = sorted(path for path in folder.rglob("*") if path.name.lower().endswith(ImageFolderArrays.EXTENSIONS))
    if not paths:
        raise ConfigFileError(
            f"{folder}: there is no file that ends in one of {', '.join(ImageFolderArrays.EXTENSIONS)}"
        )
    return [(path, path.relative_to(folder).parts[0] if path.parent != folder else None) for path in paths]


def _image_piece(files: Sequence[tuple[Path, str | None]], about: dict[str, Any]) -> Piece:
    names: list[Any] = []
    arrays: list[npt.NDArray[Any]] = []
    classes: list[int] = []
    broken: list[str] = []
    known: dict[str, int] = {name: place for place, name in enumerate(about.get("classes") or ())}
    channels, size = _wanted(about)
    for path, folder in files:
        try:
            with opened_image(path, "netcl predict") as image:
                array = sized_planes(image, size, gray=channels == 1)
        except (DataFileError, OSError) as error:
            broken.append(str(error))
            continue
        if arrays and array.shape != arrays[0].shape:
            broken.append(f"{path} has {array.shape[1]} x {array.shape[2]} pixels, others have another size")
            continue
        names.append(str(path))
        arrays.append(array)
        classes.append(known.get(folder, -1) if folder is not None else -1)
    inputs = (scaled(np.stack(arrays), about),) if arrays else ()
    compared = bool(classes) and min(classes) >= 0
    return Piece(names, inputs, np.array(classes) if compared else None, broken)


def _wanted(about: dict[str, Any]) -> tuple[int, tuple[int, int] | None]:
    """Returns the channels and the (height, width) of the images that the model was trained on."""
    shape = about.get("shape")
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(n, int) and 0 < n < 1 << 16 for n in shape):
        return 3, None
    return shape[0], (shape[1], shape[2])
