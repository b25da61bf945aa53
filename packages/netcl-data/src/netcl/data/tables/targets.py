"""The column or columns to predict: classes, numbers or labels, as arrays, and the meaning of a model's outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from netcl.data.tables.cells import Cells, Chunk, first_of

_YES, _NO = ("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f", "")


@dataclass(frozen=True)
class Target(ABC):
    """The columns ``names``; ``task`` says what a model learns."""

    kind: ClassVar[str] = ""
    task: ClassVar[str] = ""
    names: list[str]

    @property
    def outputs(self) -> int:
        """The number of outputs of a model."""
        return len(self.names)

    @abstractmethod
    def encode(self, chunk: Chunk) -> npt.NDArray[Any]:
        """Returns the targets of rows. Raises TableError with the place of a wrong or missing cell."""

    @abstractmethod
    def decode(self, outputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns outputs of a model as probabilities, or as numbers in the units of the table; float64."""


def _present(cells: Cells) -> None:
    at = first_of(cells.missing)
    if at is not None:
        raise cells.error(at, "the target is missing; fill it, or remove the row")


@dataclass(frozen=True)
class ClassTarget(Target):
    """One of ``classes``; ``counts`` is the number of training rows of each."""

    kind: ClassVar[str] = "classes"
    task: ClassVar[str] = "classification"
    classes: list[str]
    counts: list[int]

    @property
    def outputs(self) -> int:
        return len(self.classes)

    def encode(self, chunk: Chunk) -> npt.NDArray[np.int64]:
        cells = chunk.columns[self.names[0]]
        _present(cells)
        places = {value: place for place, value in enumerate(self.classes)}
        ids = np.fromiter((places.get(text, -1) for text in cells.texts()), np.int64, len(cells))
        cells.refuse(ids < 0, f"is no class that was seen in training; known are {', '.join(self.classes[:20])}")
        return ids

    def decode(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        logits = outputs.astype(np.float64)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class NumberTarget(Target):
    """Numbers, (value - mean) / std for each column."""

    kind: ClassVar[str] = "numbers"
    task: ClassVar[str] = "regression"
    mean: list[float]
    std: list[float]

    def encode(self, chunk: Chunk) -> npt.NDArray[np.float32]:
        columns = []
        for name, mean, std in zip(self.names, self.mean, self.std):
            cells = chunk.columns[name]
            _present(cells)
            values, wrong = cells.numbers()
            cells.refuse(wrong, "is no number within float32")
            columns.append((values - mean) / std)
        return np.stack(columns, axis=1).astype(np.float32)

    def decode(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return outputs.reshape(len(outputs), -1).astype(np.float64) * self.std + self.mean


@dataclass(frozen=True)
class LabelsTarget(Target):
    """Labels that hold or not: a column of 0 and 1, or yes and no, for each. ``counts`` is the number of ``rows`` with
    each label.
    """

    kind: ClassVar[str] = "labels"
    task: ClassVar[str] = "multilabel"
    counts: list[int]
    rows: int

    def encode(self, chunk: Chunk) -> npt.NDArray[np.float32]:
        return np.stack([held(chunk.columns[name]) for name in self.names], axis=1).astype(np.float32)

    def decode(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-np.clip(outputs.astype(np.float64), -700, 700))))


def held(cells: Cells) -> npt.NDArray[np.bool_]:
    """Returns True for each cell with a label that holds. Raises TableError for a cell that is neither yes nor no."""
    _present(cells)
    texts = [text.lower() for text in cells.texts()]
    texts = [text[:-2] if text in ("0.0", "1.0") else text for text in texts]
    at = next((at for at, text in enumerate(texts) if text not in _YES and text not in _NO), None)
    if at is not None:
        raise cells.error(at, f"{cells.shown(at)} is no label; expected 0 or 1, true or false, yes or no")
    return np.fromiter((text in _YES for text in texts), bool, len(texts))


TARGETS: Mapping[str, type[Target]] = {kind.kind: kind for kind in (ClassTarget, NumberTarget, LabelsTarget)}
