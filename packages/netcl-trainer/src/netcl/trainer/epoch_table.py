"""EpochTable: a list of one dict per epoch, with its columns, its best row and a CSV file."""

from __future__ import annotations

import csv
import math
from os import PathLike
from pathlib import Path
from typing import Any

# A larger value is better for these; for all others a smaller one.
_LARGER_IS_BETTER = ("accuracy", "auc", "f1", "precision", "recall", "iou", "score", "r2", "top5", "samples_per_second")


def larger_is_better(name: str) -> bool:
    """Returns True if a larger value of the metric ``name`` is better, judged by its name."""
    return any(name == word or name.endswith(f"_{word}") for word in _LARGER_IS_BETTER)


class EpochTable(list[dict[str, Any]]):
    """Rows of measured values by name, one per epoch."""

    def column(self, name: str) -> list[Any]:
        """Returns the values of ``name`` by epoch, None for epochs without it. Raises KeyError if all epochs
        lack it.
        """
        if not any(name in row for row in self):
            names = ", ".join(self.names) or "nothing yet"
            raise KeyError(f"the history has no {name!r}; it has {names}")
        return [row.get(name) for row in self]

    @property
    def names(self) -> list[str]:
        """All names, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self for name in row))

    def best(self, name: str, mode: str | None = None) -> dict[str, Any]:
        """Returns the first epoch with the best ``name``: the largest for ``mode="max"``, the smallest for "min"; None
        decides by the name.

        Accuracies and similar metrics are best when large, losses when small; NaN is never best. Raises KeyError for an
        unknown name.
        """
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode must be 'min', 'max' or None, got {mode!r}")
        largest = larger_is_better(name) if mode is None else mode == "max"
        rows = [row for row, value in zip(self, self.column(name)) if value is not None and not math.isnan(value)]
        if not rows:
            raise ValueError(f"every {name!r} of the history is NaN")
        return max(rows, key=lambda row: row[name]) if largest else min(rows, key=lambda row: row[name])

    def to_csv(self, path: str | PathLike[str]) -> Path:
        """Writes a header and one line per epoch, with all digits, and returns the path."""
        target = Path(path)
        with target.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.names, restval="")
            writer.writeheader()
            writer.writerows(self)
        return target
