"""History: what a training run measured, one dict per epoch, with its best epoch, a CSV file and a plot."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["History"]

# A larger value is better for these; for all others a smaller one.
_RISING = ("accuracy", "auc", "f1", "precision", "recall", "iou", "score", "samples_per_second")


def rising(name: str) -> bool:
    """Whether a larger value of the metric ``name`` is the better one, going by its name."""
    return any(name == word or name.endswith(f"_{word}") for word in _RISING)


class History(list[dict[str, Any]]):
    """One dict per epoch: ``epoch`` (from 1), ``step``, ``loss``, the metrics, ``val_...`` of each, ``seconds``,
    ``samples_per_second``.

    >>> history = History([{"epoch": 1, "val_loss": 0.5}, {"epoch": 2, "val_loss": 0.4}])
    >>> history.best("val_loss")["epoch"]
    2
    """

    # The Trainer that measured it and its validation loader: what a report shows beside the numbers.
    source: tuple[Any, Any] | None = None

    def column(self, name: str) -> list[Any]:
        """The values of ``name`` by epoch, None where an epoch lacks it. KeyError where all do."""
        if not any(name in row for row in self):
            known = ", ".join(self.names) or "nothing yet"
            raise KeyError(f"the history has no {name!r}; it has {known}")
        return [row.get(name) for row in self]

    @property
    def names(self) -> list[str]:
        """All names, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self for name in row))

    def best(self, name: str, mode: str | None = None) -> dict[str, Any]:
        """The first epoch with the best ``name``: the largest for ``mode="max"``, the smallest for "min"; None goes by
        the name.

        Accuracies and the like are best when large, losses when small; NaN is never best. KeyError for an unknown name.
        """
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode is 'min', 'max' or None, not {mode!r}")
        largest = rising(name) if mode is None else mode == "max"
        rows = [row for row, value in zip(self, self.column(name)) if value is not None and not math.isnan(value)]
        if not rows:
            raise ValueError(f"every {name!r} of the history is NaN")
        return max(rows, key=lambda row: row[name]) if largest else min(rows, key=lambda row: row[name])

    def to_csv(self, path: str | PathLike[str]) -> Path:
        """Writes one line per epoch under a line of names, numbers to the last digit, and gives the path."""
        target = Path(path)
        with target.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.names, restval="")
            writer.writeheader()
            writer.writerows(self)
        return target

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Loss and metrics over the epochs, as a matplotlib Figure; saved to ``path`` where one is given.

        Training is solid, validation dashed. Needs matplotlib: ``pip install "netcl-trainer[plot]"``.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError('History.plot needs matplotlib: pip install "netcl-trainer[plot]"') from error
        if not self:
            raise ValueError("the history is empty: there is nothing to plot")
        figure = Figure(figsize=(10, 4), layout="constrained")
        metrics = [n for n in self.names if f"val_{n}" in self.names and n != "loss"] or [
            n for n in self.names if rising(n) and n != "samples_per_second" and not n.startswith("val_")
        ]
        panels = [["loss"], metrics] if metrics else [["loss"]]
        for axes, names in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
            draw_curves(axes, self, names)
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def report(self, path: str | PathLike[str], config: str | None = None) -> Path:
        """Writes one HTML page that needs nothing beside it, and gives its path: curves, learning rate, throughput,
        the validation samples that the model is surest of and wrong about, device, versions and settings, and the text
        of ``config`` where one is given.

        For a History of ``Trainer.fit`` the model looks at the validation loader once more, as it is now; one made by
        hand has its curves alone. ValueError where it is empty.
        """
        from netcl.trainer.report import write_report

        return write_report(self, path, config)


def draw_curves(axes: Any, history: History, names: list[str]) -> None:
    """Draws the curves of ``names`` and of their validation into matplotlib axes."""
    epochs = [row.get("epoch", at) for at, row in enumerate(history, 1)]
    for at, name in enumerate(names):
        for key, style, label in ((name, "-", "training"), (f"val_{name}", "--", "validation")):
            if key in history.names:
                values = [math.nan if value is None else value for value in history.column(key)]
                text = label if len(names) == 1 else f"{name}, {label}"
                axes.plot(epochs, values, style, color=f"C{at}" if label == "training" else f"C{at + 1}", label=text)
    axes.set_xlabel("epoch")
    axes.set_title(", ".join(names))
    axes.grid(alpha=0.3)
    axes.legend()
    # Epochs are whole numbers.
    axes.xaxis.get_major_locator().set_params(integer=True)
