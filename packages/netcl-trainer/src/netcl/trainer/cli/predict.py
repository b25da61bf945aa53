"""``netcl predict``: the outputs of a saved model for tables, images, folders of images and arrays."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl import io
from netcl.core.device import device
from netcl.data import DataFileError, TableEncoding
from netcl.trainer.cli.about import checked
from netcl.trainer.cli.build import open_device
from netcl.trainer.cli.config import ConfigFileError
from netcl.trainer.cli.inputs import Piece, pieces_of
from netcl.trainer.cli.predictions import Answer, Meaning, matrix_text, writer_of
from netcl.trainer.epoch_metrics import Deviations, confusion_of
from netcl.trainer.trainer import Trainer

_LARGEST_MATRIX = 20


def predict(chosen: argparse.Namespace) -> int:
    """Writes the predictions as .csv or .json or the outputs as .npy, or prints a line per sample: the class and its
    probability, or the values. Returns 1 if an image could not be read.
    """
    output = None if chosen.output is None else Path(chosen.output)
    if output is not None and output.suffix.lower() not in (".csv", ".json", ".npy"):
        raise ConfigFileError(f"--output {output}: expected a name that ends in .csv, .json or .npy")
    with device(open_device(chosen.device)):
        model = io.load_model(chosen.model)
        about = checked(model.about, chosen.model)
        encoding = _encoding(about, chosen.model)
        trainer = Trainer(model)
        meaning: Meaning | None = None
        score, skipped = _Score(), 0
        with writer_of(output) as writer:
            for piece in pieces_of([Path(path) for path in chosen.input], about, encoding, chosen.batch_size):
                skipped += len(piece.broken)
                for problem in piece.broken:
                    print(f"netcl: skipped: {problem}", file=sys.stderr)
                if not len(piece.names):
                    continue
                outputs = _outputs(trainer, piece, chosen.batch_size)
                meaning = meaning or Meaning.of(outputs, about, encoding)
                writer.add(
                    outputs, [Answer(name, meaning, row) for name, row in zip(piece.names, meaning.read(outputs))]
                )
                score.add(meaning, outputs, piece)
            if meaning is None:
                raise DataFileError(f"{', '.join(chosen.input)}: there is no sample to predict")
            writer.finish()
        score.show(meaning)
    return int(skipped > 0)


def _encoding(about: dict[str, Any], path: str) -> TableEncoding | None:
    try:
        return None if about.get("table") is None else TableEncoding.from_dict(about["table"])
    except DataFileError as error:
        raise io.CheckpointError(f"its table cannot be used: {error}", path) from error


def _outputs(trainer: Trainer, piece: Piece, size: int) -> npt.NDArray[Any]:
    """Returns the outputs for the samples of a piece, batch by batch."""
    count = len(piece.inputs[0])
    # The last array of a batch is a target, which `predict` ignores.
    fields = piece.inputs if len(piece.inputs) == 1 else (*piece.inputs, np.zeros(count, np.int64))
    batches: list[Any] = [tuple(field[at : at + size] for field in fields) for at in range(0, count, size)]
    return trainer.predict([batch if len(batch) > 1 else batch[0] for batch in batches])


class _Score:
    """Compares predictions with targets, if the inputs have them."""

    def __init__(self) -> None:
        self.counts: Any = None
        self.numbers: Deviations = Deviations()

    def add(self, meaning: Meaning, outputs: npt.NDArray[Any], piece: Piece) -> None:
        if piece.targets is None:
            return
        if meaning.task == "regression":
            self.numbers.add(outputs, piece.targets)
        else:
            counts = confusion_of(outputs, piece.targets, meaning.task == "multilabel")
            self.counts = counts if self.counts is None else self.counts + counts

    def show(self, meaning: Meaning) -> None:
        """Prints the score; for classes the accuracy and the confusion matrix."""
        if self.numbers.sums is not None:
            print(f"compared with the targets: r2 {self.numbers.result():.4f}")
        if self.counts is None:
            return
        if self.counts.ndim == 3:
            right = self.counts[:, 0, 0] + self.counts[:, 1, 1]
            share = right.sum() / self.counts.sum()
            print(f"compared with the targets: {100 * share:.2f} % of the labels are right")
            return
        total, right = int(self.counts.sum()), int(np.trace(self.counts))
        print(f"compared with the targets: accuracy {100 * right / max(1, total):.2f} % of {total:,}")
        if len(self.counts) <= _LARGEST_MATRIX:
            print(matrix_text(self.counts, meaning.names))
