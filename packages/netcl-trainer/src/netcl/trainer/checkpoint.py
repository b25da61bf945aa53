"""ModelCheckpoint: saves the best epochs by a metric, and the whole run for resuming, during training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.core.errors import from_here
from netcl.core.process.user_frame import level_outside
from netcl.io import CheckpointError, save_model
from netcl.io.atomic import remove_leftovers
from netcl.trainer.callbacks import Callback, is_better, monitored
from netcl.trainer.epoch_table import larger_is_better
from netcl.trainer.run_view import RunView


class ModelCheckpoint(Callback):
    """Writes ``epoch_003.netcl`` for the ``save_top_k`` best epochs by ``monitor`` and ``last.netcl`` after each epoch,
    into ``folder``.

    The best files are models (``netcl.io.load_model``), with the averaged weights if the Trainer has averages
    (``ema=``). ``last.netcl`` is the whole run, for ``fit(resume="auto")``: weights, optimizer, schedule, loss scale,
    averages, random numbers, the loader's position, history and callbacks. ``mode``: "min" or "max"; None: "max" for
    accuracies and similar metrics. ``save_top_k=0`` keeps none of the best, -1 all. ``every_n_steps`` also writes
    ``last.netcl`` between epochs. ``best_path`` is the best file so far. If a file cannot be written,
    ``on_save_error="warn"`` continues training and "raise" ends it. In both cases an old file stays intact.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        monitor: str = "val_loss",
        save_last: bool = True,
        save_top_k: int = 1,
        every_n_steps: int | None = None,
        on_save_error: str = "raise",
        mode: str | None = None,
    ) -> None:
        if on_save_error not in ("raise", "warn") or mode not in (None, "min", "max"):
            raise ValueError(
                f"on_save_error must be 'raise' or 'warn', mode 'min' or 'max', got {on_save_error!r} and {mode!r}"
            )
        if save_top_k < -1 or (every_n_steps is not None and every_n_steps < 1):
            raise ValueError(
                f"save_top_k must be at least -1, every_n_steps at least 1, got {save_top_k} and {every_n_steps}"
            )
        self.folder: Path = Path(folder)
        self.monitor: str = monitor
        self.save_last: bool = save_last
        self.save_top_k: int = save_top_k
        self.every_n_steps: int | None = every_n_steps
        self.on_save_error = on_save_error
        self.largest: bool = larger_is_better(monitor) if mode is None else mode == "max"
        self.kept: list[tuple[float, Path]] = []  # best first

    @property
    def best_path(self) -> Path | None:
        """The file of the best epoch so far."""
        return self.kept[0][1] if self.kept else None

    @property
    def last_path(self) -> Path:
        """The file of the last save."""
        return self.folder / "last.netcl"

    def on_fit_start(self, trainer: RunView) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # Temporary files of a process that was killed while it wrote.
        for leftover in self.folder.glob(".*.netcl.*.tmp"):
            remove_leftovers(self.folder, leftover.name[1 : -len(".0123456789ab.tmp")])
        self.kept = []

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        if self.every_n_steps is not None and trainer.step % self.every_n_steps == 0:
            self.save_last_file(trainer)

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        if self.save_top_k != 0:
            self._keep_if_good(trainer, logs)
        # Written last: it contains the list of kept files.
        if self.save_last:
            self.save_last_file(trainer)

    def save_last_file(self, trainer: RunView) -> None:
        """Writes the current state of the run to ``last_path``."""
        self._save(self.last_path, trainer.save_checkpoint)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": [[value, path.name] for value, path in self.kept]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        saved = [(float(value), self.folder / str(name)) for value, name in state["kept"]]
        self.kept = [(value, path) for value, path in saved if path.is_file()]

    def _keep_if_good(self, trainer: RunView, logs: dict[str, Any]) -> None:
        value = monitored(logs, self.monitor, "ModelCheckpoint")
        rank = next(
            (rank for rank, (other, _) in enumerate(self.kept) if is_better(value, other, self.largest)), len(self.kept)
        )
        if self.save_top_k != -1 and rank >= self.save_top_k:
            return
        path = self.folder / f"epoch_{trainer.epoch:03d}.netcl"

        def save(path: Path) -> None:
            with trainer.averaged():
                save_model(trainer.model, path)

        if self._save(path, save):
            self.kept.insert(rank, (value, path))
            for _, old in self.kept[self.save_top_k :] if self.save_top_k != -1 else ():
                old.unlink(missing_ok=True)
            if self.save_top_k != -1:
                del self.kept[self.save_top_k :]

    def _save(self, path: Path, save: Callable[[Path], None]) -> bool:
        """Returns True if the file is in place."""
        try:
            save(path)
        except (OSError, RuntimeError) as error:  # a CheckpointError is a RuntimeError
            if self.on_save_error == "raise":
                raise
            warnings.warn(f"ModelCheckpoint: {error}; training goes on", UserWarning, stacklevel=level_outside())
            return isinstance(error, CheckpointError) and error.replaced
        return True


from_here(globals())
