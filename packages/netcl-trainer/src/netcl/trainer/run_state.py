"""RunState: the position of a run between two steps, and its file for saving and resuming."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.io import CheckpointError, latest_checkpoint, load_checkpoint, save_checkpoint
from netcl.trainer.callbacks import Callback
from netcl.trainer.history import History
from netcl.trainer.run_view import RunView

__all__ = ["RunState", "find_checkpoint", "load_run", "save_run"]

_VERSION = 1


@dataclass
class RunState:
    """The position within an epoch: ``stage`` "start" (of the next), "train" or "validate"; batches and seconds
    so far.
    """

    train_loader: Any = None
    val_loader: Any = None
    callbacks: Sequence[Callback] = ()
    stage: str = "start"
    batches: int = 0
    seconds: float = 0.0
    row: dict[str, Any] = field(default_factory=dict)
    skip: int = 0  # batches of a loader without a state, read and dropped after a resume


def save_run(trainer: RunView, run: RunState, path: str | PathLike[str]) -> None:
    """Writes the complete state of the run for an exact resume. Raises CheckpointError; an old file is intact then."""
    extra = {
        "trainer": _VERSION,
        "stage": run.stage,
        "batches": run.batches,
        "seconds": run.seconds,
        "row": run.row,
        "samples": trainer.samples,
        "should_stop": trainer.should_stop,
        "history": list(trainer.history),
        "means": trainer.means.state_dict(),
        "val_loader": run.val_loader.state_dict() if _keeps_state(run.val_loader) else None,
        "callbacks": [[type(callback).__name__, callback.state_dict()] for callback in run.callbacks],
    }
    save_checkpoint(
        trainer.model,
        path,
        **_parts(trainer, run),
        epoch=trainer.epoch,
        step=trainer.step,
        metrics=trainer.history[-1] if trainer.history else None,
        extra=extra,
    )


def load_run(trainer: RunView, run: RunState, path: Path) -> None:
    """Restores the run that was saved in ``path``. Raises CheckpointError if the file is damaged, is not of a Trainer,
    or does not fit; the model is unchanged then.
    """
    rest = load_checkpoint(path, trainer.model, **_parts(trainer, run))
    extra = rest["extra"]
    if not isinstance(extra, dict) or extra.get("trainer") != _VERSION:
        raise CheckpointError("holds weights, but no run of a Trainer to resume", path)
    trainer.epoch, trainer.step, trainer.samples = int(rest["epoch"]), int(rest["step"]), int(extra["samples"])
    trainer.should_stop = bool(extra["should_stop"])
    trainer.history[:] = History(extra["history"])
    trainer.means.load_state_dict(extra["means"])
    run.stage, run.batches = str(extra["stage"]), int(extra["batches"])
    run.seconds, run.row = float(extra["seconds"]), dict(extra["row"])
    run.skip = 0 if _keeps_state(run.train_loader) or run.stage != "train" else run.batches
    if _keeps_state(run.val_loader) and extra["val_loader"] is not None:
        run.val_loader.load_state_dict(extra["val_loader"])
    if run.stage != "start":
        for callback in run.callbacks:
            callback.on_epoch_start(trainer)
    saved = [(str(name), state) for name, state in extra["callbacks"]]
    for callback in run.callbacks:
        at = next((at for at, (name, _) in enumerate(saved) if name == type(callback).__name__), None)
        if at is not None:
            callback.load_state_dict(saved.pop(at)[1])


def find_checkpoint(resume: str | PathLike[str], folders: Iterable[Path]) -> Path | None:
    """Returns the file for ``fit(resume=...)``: the path itself, or the furthest intact checkpoint of a folder or, with
    "auto", of ``folders``; None if "auto" finds none.
    """
    if resume == "auto":
        places = list(folders)
        if not places:
            raise ValueError('resume="auto" looks into the folder of a ModelCheckpoint, and the Trainer has none')
        found = (latest_checkpoint(place) for place in places if place.is_dir())
        return next((path for path in found if path is not None), None)
    path = Path(resume)
    if not path.is_dir():
        return path
    latest = latest_checkpoint(path)
    if latest is None:
        raise CheckpointError("this folder holds no whole checkpoint to resume", path)
    return latest


def _keeps_state(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def _parts(trainer: RunView, run: RunState) -> dict[str, Any]:
    """Returns the objects that are saved by their own state_dict."""
    loader = run.train_loader
    return {
        "optimizer": trainer.optimizer,
        "scheduler": trainer.scheduler,
        "scaler": trainer.scaler,
        "ema": trainer.ema,
        "loader": loader if _keeps_state(loader) else None,
    }
