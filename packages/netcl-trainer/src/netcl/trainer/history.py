"""History: the values that a training run measured, one dict per epoch, with a plot and an HTML report."""

from __future__ import annotations

import io
import math
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.trainer.epoch_table import EpochTable, larger_is_better
from netcl.trainer.report import notebook_view, write_report


class History(EpochTable):
    """One dict per epoch: ``epoch`` (from 1), ``step``, ``loss``, the metrics, ``val_...`` of each, ``seconds``,
    ``samples_per_second``.

    >>> history = History([{"epoch": 1, "val_loss": 0.5}, {"epoch": 2, "val_loss": 0.4}])
    >>> history.best("val_loss")["epoch"]
    2
    """

    # The Trainer that measured it and its validation loader, for the report.
    source: tuple[Any, Any] | None = None

    def _repr_html_(self) -> str:
        """Returns the curves and the table of epochs that a notebook shows."""
        return notebook_view(self)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Plots loss and metrics over the epochs, as a matplotlib Figure, which a notebook shows; saved to ``path`` if
        it is not None.

        Training is solid, validation dashed. Needs matplotlib: ``pip install "netcl-trainer[plot]"``.
        """
        try:
            figure_class = _shown_figure()
        except ImportError as error:
            raise ImportError('History.plot needs matplotlib: pip install "netcl-trainer[plot]"') from error
        if not self:
            raise ValueError("the history is empty: there is nothing to plot")
        figure = figure_class(figsize=(10, 4), layout="constrained")
        numbers = [
            n for n in self.names if not any(isinstance(row.get(n), list) for row in self)
        ]  # no confusion matrix
        metrics = [n for n in numbers if f"val_{n}" in numbers and n != "loss"] or [
            n for n in numbers if larger_is_better(n) and n != "samples_per_second" and not n.startswith("val_")
        ]
        panels = [["loss"], metrics] if metrics else [["loss"]]
        for axes, names in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
            draw_curves(axes, self, names)
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def report(self, path: str | PathLike[str], config: str | None = None) -> Path:
        """Writes one self-contained HTML page and returns its path: curves, learning rate, throughput, the
        misclassified validation samples with the highest confidence, device, versions and settings, and the text of
        ``config`` if given.

        For a History of ``Trainer.fit`` the current model is run on the validation loader once more; the report of one
        made by hand has only its curves. Raises ValueError if it is empty.
        """
        return write_report(self, self.source, path, config)


def _shown_figure() -> Any:
    """Returns a class of matplotlib's figures that a notebook shows, also without ``%matplotlib inline``."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):  # type: ignore[misc, unused-ignore]
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=100)
            return file.getvalue()

    return ShownFigure


def draw_curves(axes: Any, history: History, names: list[str]) -> None:
    """Draws the training and validation curves of ``names`` into matplotlib axes."""
    epochs = [row.get("epoch", number) for number, row in enumerate(history, 1)]
    for number, name in enumerate(names):
        for key, style, label in ((name, "-", "training"), (f"val_{name}", "--", "validation")):
            if key in history.names:
                values = [math.nan if value is None else value for value in history.column(key)]
                text = label if len(names) == 1 else f"{name}, {label}"
                axes.plot(
                    epochs, values, style, color=f"C{number}" if label == "training" else f"C{number + 1}", label=text
                )
    axes.set_xlabel("epoch")
    axes.set_title(", ".join(names))
    axes.grid(alpha=0.3)
    axes.legend()
    # Epochs are whole numbers.
    axes.xaxis.get_major_locator().set_params(integer=True)
