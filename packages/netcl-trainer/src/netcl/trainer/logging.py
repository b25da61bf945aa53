"""CSVLogger: the History as a file that grows with each epoch, readable while the run goes on."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netcl.trainer.callbacks import Callback
from netcl.trainer.history import History

if TYPE_CHECKING:
    from netcl.trainer.trainer import Trainer

__all__ = ["CSVLogger"]


class CSVLogger(Callback):
    """Writes a line per epoch to ``path``. Give it after the callbacks that add to the logs."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._rows = History()

    def on_fit_start(self, trainer: Trainer) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._rows = History()

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
        # The whole file anew: an epoch may bring columns that those before it lack.
        self._rows.append(dict(logs))
        self._rows.to_csv(self.path)
