"""Predictions: what the outputs of a model mean, and their lines, .csv, .json and .npy files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from netcl.data import DataFileError, TableEncoding
from netcl.data.tables.targets import ClassTarget, LabelsTarget


@dataclass(frozen=True)
class Meaning:
    """The task of a model, the names of its outputs, and the table that decodes them, if there is one."""

    task: str
    names: list[str]
    encoding: TableEncoding | None = None

    @classmethod
    def of(cls, outputs: npt.NDArray[Any], about: dict[str, Any], encoding: TableEncoding | None) -> Meaning:
        """Returns the meaning that the model file gives; without one, several outputs are classes."""
        wide = outputs.ndim == 2 and outputs.shape[1] > 1
        task = about.get("task", "classification" if wide or about.get("classes") else "regression")
        if task == "classification" and not wide:
            task = "regression"  # logits of no two classes
        count = int(np.prod(outputs.shape[1:]))
        names = [str(name) for name in about.get("classes") or ()]
        if encoding is not None and encoding.target is not None:
            target = encoding.target
            if target.outputs != count:
                raise DataFileError(f"the model has {count} outputs, and its table {target.outputs}: it cannot be read")
            names = list(target.classes if isinstance(target, ClassTarget) else target.names)
        if len(names) != count:
            names = [str(number) for number in range(count)]
        return cls(task, names, encoding)

    def read(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns probabilities, or numbers in the units of the table, (rows, outputs)."""
        flat = outputs.reshape(len(outputs), -1)
        if self.encoding is not None:
            return self.encoding.decode(flat)
        if self.task == "classification":
            return ClassTarget([""], [], []).decode(flat)
        if self.task == "multilabel":
            return LabelsTarget([], [], 0).decode(flat)
        return flat.astype(np.float64)


@dataclass(frozen=True)
class Answer:
    """The prediction for one sample: ``values`` are probabilities or numbers."""

    name: Any
    meaning: Meaning
    values: npt.NDArray[np.float64]

    @property
    def best(self) -> int:
        """The place of the most probable class."""
        return int(self.values.argmax())

    @property
    def labels(self) -> list[str]:
        """The labels with a probability of more than one half."""
        return [name for name, value in zip(self.meaning.names, self.values) if value > 0.5]

    def line(self) -> str:
        """Returns a line to print."""
        names, values = self.meaning.names, self.values
        if self.meaning.task == "classification":
            return f"{self.name} class {names[self.best]} {100 * values[self.best]:.1f} %"
        if self.meaning.task == "multilabel":
            shares = (f"{name} {100 * value:.1f} %" for name, value in zip(names, values))
            return f"{self.name} {'  '.join(shares)}"
        return " ".join([str(self.name), *(f"{value:.6g}" for value in values)])

    def row(self) -> dict[str, Any]:
        """Returns the cells of a .csv file."""
        cells: dict[str, Any] = {"sample": self.name}
        shown = [float(f"{value:.9g}") for value in self.values.tolist()]
        if self.meaning.task == "regression":
            return {**cells, **dict(zip(self.meaning.names, shown))}
        if self.meaning.task == "classification":
            cells.update({"class": self.meaning.names[self.best], "probability": shown[self.best]})
        else:
            cells["labels"] = ";".join(self.labels)
        return {**cells, **{f"probability of {name}": value for name, value in zip(self.meaning.names, shown)}}

    def item(self) -> dict[str, Any]:
        """Returns the object of a .json file."""
        shown = {name: float(f"{value:.9g}") for name, value in zip(self.meaning.names, self.values.tolist())}
        if self.meaning.task == "regression":
            return {"sample": self.name, "values": shown}
        best: dict[str, Any] = {"labels": self.labels}
        if self.meaning.task == "classification":
            best = {"class": self.meaning.names[self.best], "probability": shown[self.meaning.names[self.best]]}
        return {"sample": self.name, **best, "probabilities": shown}


def matrix_text(counts: npt.NDArray[Any], names: list[str]) -> str:
    """Returns the confusion matrix as a text: rows by the true, columns by the predicted class."""
    head = [f"{'true, predicted':<16}", *names]
    rows = [[name, *map(str, row)] for name, row in zip(names, counts.tolist())]
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths)))
        for row in (head, *rows)
    )


class Writer:
    """Prints a line per sample; subclasses write files. ``finish`` says what was written."""

    def add(self, outputs: npt.NDArray[Any], answers: Sequence[Answer]) -> None:
        """Adds the answers of some samples, and the model's outputs for them."""
        for answer in answers:
            print(answer.line())

    def finish(self) -> None:
        """Ends the file."""


class _CSVWriter(Writer):
    def __init__(self, file: TextIO, path: Path) -> None:
        self.file, self.path, self.count = file, path, 0
        self.writer: csv.DictWriter[str] | None = None

    def add(self, outputs: npt.NDArray[Any], answers: Sequence[Answer]) -> None:
        for answer in answers:
            row = answer.row()
            if self.writer is None:
                self.writer = csv.DictWriter(self.file, list(row), lineterminator="\n")
                self.writer.writeheader()
            self.writer.writerow(row)
        self.count += len(answers)

    def finish(self) -> None:
        print(f"{self.count:,} predictions {self.path}")


class _JSONWriter(_CSVWriter):
    def add(self, outputs: npt.NDArray[Any], answers: Sequence[Answer]) -> None:
        for answer in answers:
            self.file.write(",\n" if self.count else "[\n")
            self.file.write(json.dumps(answer.item(), ensure_ascii=False))
            self.count += 1

    def finish(self) -> None:
        self.file.write("\n]\n")
        super().finish()


class _NpyWriter(Writer):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: list[npt.NDArray[Any]] = []

    def add(self, outputs: npt.NDArray[Any], answers: Sequence[Answer]) -> None:
        self.parts.append(outputs)

    def finish(self) -> None:
        outputs = np.concatenate(self.parts)
        np.save(self.path, outputs)
        print(f"{outputs.shape} {outputs.dtype} {self.path}")


@contextmanager
def writer_of(path: Path | None) -> Iterator[Writer]:
    """Yields the writer for an output file, or for None one that prints lines; a file that is not finished is
    removed.
    """
    if path is None:
        yield Writer()
    elif path.suffix.lower() == ".npy":
        yield _NpyWriter(path)
    else:
        try:
            with path.open("w", newline="", encoding="utf-8") as file:
                yield (_JSONWriter if path.suffix.lower() == ".json" else _CSVWriter)(file, path)
        except BaseException:
            path.unlink(missing_ok=True)  # half of the predictions would be taken for all
            raise
