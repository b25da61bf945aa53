"""CSVLogger and TensorBoardLogger: write the measured values to files during the run."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from netcl.core.errors import from_here
from netcl.trainer.callbacks import Callback
from netcl.trainer.run_view import RunView

__all__ = ["CSVLogger", "TensorBoardLogger"]


class CSVLogger(Callback):
    """Writes a line per epoch to ``path``. List it after the callbacks that add to the logs."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path)

    def on_fit_start(self, trainer: RunView) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        # The whole file is written again: an epoch may add columns that earlier ones lack.
        trainer.history.to_csv(self.path)


class TensorBoardLogger(Callback):
    """Writes loss and metrics for TensorBoard into ``folder``: per epoch, and the values read within an epoch as
    ``step/...``, over the number of steps.

    A resumed run continues in the same folder. Needs tensorboardX: ``pip install "netcl-trainer[tensorboard]"``.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder: Path = Path(folder)
        self._writer: Any = None

    def on_fit_start(self, trainer: RunView) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                'TensorBoardLogger needs tensorboardX: pip install "netcl-trainer[tensorboard]"'
            ) from error
        self._writer = SummaryWriter(str(self.folder))

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        self._write(trainer, {f"step/{name}": value for name, value in logs.items()})
        if logs:
            self._write(trainer, {"step/lr": float(trainer.optimizer.param_groups[0]["lr"])})

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        numbers = {
            name: float(value) for name, value in logs.items() if isinstance(value, (int, float)) and name != "step"
        }
        self._write(trainer, numbers)
        self._writer.flush()

    def _write(self, trainer: RunView, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, trainer.step)

    def on_fit_end(self, trainer: RunView) -> None:
        self._close()

    def on_exception(self, trainer: RunView, error: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


from_here(globals())
