"""RunState: the position of a run between two steps, and its file for saving and resuming."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.core.process.user_frame import level_outside
from netcl.io import CheckpointError, latest_checkpoint, load_checkpoint, save_checkpoint
from netcl.io.checkpoint import read_states
from netcl.trainer.callbacks import Callback
from netcl.trainer.history import History
from netcl.trainer.run_facts import Change, changed, is_allowed, option_names
from netcl.trainer.run_view import RunView

_VERSION = 1


@dataclass
class RunState:
    """The position within an epoch: ``stage`` "start" (of the next), "train", "trained" (after its last, incomplete
    group) or "validate"; batches and seconds so far.
    """

    train_loader: Any = None
    val_loader: Any = None
    callbacks: Sequence[Callback] = ()
    stage: str = "start"
    batches: int = 0
    seconds: float = 0.0
    row: dict[str, Any] = field(default_factory=dict)
    skip: int = 0  # batches of a loader without a state, read and dropped after a resume
    facts: dict[str, Any] = field(default_factory=dict)  # as the run began


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
        "facts": run.facts,
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


def load_run(trainer: RunView, run: RunState, path: Path, resume_changes: str | Iterable[str] = "refuse") -> None:
    """Restores the run that was saved in ``path``; ``resume_changes`` names the facts that may differ.

    Raises CheckpointError if the file is damaged, is not a Trainer's, does not fit, or has other facts; model,
    optimizer, schedule, averages, loaders and callbacks are unchanged then.
    """
    stored = _stored_facts(read_states(path, "extra"), path)
    changes = [] if stored is None else changed(stored, run.facts)
    refused = [change for change in changes if change.fact.refused and not is_allowed(change, resume_changes)]
    if refused:
        raise CheckpointError(
            "does not fit, it is the checkpoint of another run:\n    "
            + "\n    ".join(map(str, refused))
            + "\nMake them equal, or accept the new ones by fit(resume_changes="
            + f'[{", ".join(repr(change.fact.name) for change in refused)}]), or "allow" for all',
            path,
        )
    accepted = {change.fact.name: change for change in changes if is_allowed(change, resume_changes)}
    loading = _Loading(trainer, run, path, accepted)
    loading.load(stored)
    _report(path, changes, accepted, stored is None)


class _Loading:
    """Restores a run in two phases: everything is checked, then everything is written.

    If the change of a fact is accepted, the new value is used: the state of another optimizer or schedule, and the
    position in other data, are not loaded, and an interrupted epoch begins again.
    """

    def __init__(self, trainer: RunView, run: RunState, path: Path, accepted: Mapping[str, Change]) -> None:
        self.trainer, self.run, self.path = trainer, run, path
        self.accepted = accepted
        self.begins_again = any(change.fact.refused for change in accepted.values())
        self._groups = [dict(group) for group in trainer.optimizer.param_groups]
        self._loaded: list[tuple[Any, Any]] = []
        self._schedule: dict[str, Any] | None = None

    def load(self, stored: Mapping[str, Any] | None) -> None:
        """Restores the run; ``stored`` are the facts that were compared."""
        parts = _parts(self.trainer, self.run)
        for name in ("optimizer", "scheduler"):
            if name in self.accepted:
                parts[name] = None
        if self.begins_again:
            parts["loader"] = None

        def check(rest: dict[str, Any]) -> None:
            if _stored_facts(rest, self.path) != stored:
                raise CheckpointError("was replaced while it was read; resume again", self.path)
            self._check(rest)

        try:
            rest = load_checkpoint(self.path, self.trainer.model, **parts, validate=check)
        except BaseException:
            for thing, state in reversed(self._loaded):
                thing.load_state_dict(state)
            self._set_groups(self._groups)
            raise
        self._set_optimizer()
        self._set_position(rest)

    def _check(self, rest: Mapping[str, Any]) -> None:
        """Checks the whole rest of the file; loads the states that can be restored if a later one does not fit."""
        extra = rest["extra"]
        _position(rest)
        self.trainer.means.check_state_dict(extra["means"])
        schedule = self.trainer.scheduler
        if "scheduler" in self.accepted and schedule is not None and self._is_same_schedule():
            new_options = {name: getattr(schedule, name) for name in option_names(schedule)}
            kept = dict(rest["scheduler"])
            self._schedule = {**kept, **{name: value for name, value in new_options.items() if name in kept}}
            self._try(schedule, self._schedule)
        if _keeps_state(self.run.val_loader) and extra["val_loader"] is not None and not self.begins_again:
            self._try(self.run.val_loader, extra["val_loader"])
        for callback, state in self._callback_states(extra):
            self._try(callback, state)

    def _try(self, thing: Any, state: Any) -> None:
        self._loaded.append((thing, thing.state_dict()))
        thing.load_state_dict(state)

    def _callback_states(self, extra: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        saved = [(str(name), state) for name, state in extra["callbacks"]]
        matched = []
        for callback in self.run.callbacks:
            number = next((number for number, (name, _) in enumerate(saved) if name == type(callback).__name__), None)
            if number is not None:
                matched.append((callback, saved.pop(number)[1]))
        return matched

    def _is_same_schedule(self) -> bool:
        before, now = self.accepted["scheduler"].before, self.accepted["scheduler"].now
        return isinstance(before, dict) and isinstance(now, dict) and before.get("class") == now.get("class")

    def _set_groups(self, values: Iterable[Mapping[str, Any]], *names: str) -> None:
        """Sets the options of the optimizer's groups, or only the named ones."""
        for group, options in zip(self.trainer.optimizer.param_groups, values):
            chosen = names or [name for name in options if name != "params"]
            new = {name: options[name] for name in chosen if name in options and group.get(name) is not options[name]}
            if new:
                group.update(new)

    def _set_optimizer(self) -> None:
        """Sets the options with accepted new values, after the states have been loaded."""
        groups = self.trainer.optimizer.param_groups
        if self._schedule is not None:
            self.trainer.scheduler.load_state_dict(self._schedule)
        elif "scheduler" in self.accepted and "optimizer" not in self.accepted:
            self._set_groups(self._groups, "lr", "initial_lr")
        if "optimizer_options" in self.accepted and "optimizer" not in self.accepted:
            before, now = self.accepted["optimizer_options"].before, self.accepted["optimizer_options"].now
            self._set_groups(self._groups, *(name for name in now if before.get(name) != now[name]))
        if "lr" in self.accepted and not {"optimizer", "scheduler"} & set(self.accepted):
            # A schedule may have moved the rate: it stays as far on its way.
            for group, old, new in zip(groups, self.accepted["lr"].before, self.accepted["lr"].now):
                group["lr"] = group["lr"] * new / old if old else new

    def _set_position(self, rest: Mapping[str, Any]) -> None:
        trainer, run, extra = self.trainer, self.run, rest["extra"]
        trainer.epoch, trainer.step, trainer.samples = _position(rest)
        trainer.should_stop = bool(extra["should_stop"])
        trainer.history[:] = History(extra["history"])
        trainer.means.load_state_dict(extra["means"])
        run.stage, run.batches = str(extra["stage"]), int(extra["batches"])
        run.seconds, run.row = float(extra["seconds"]), dict(extra["row"])
        if self.begins_again:
            if run.stage == "train":
                run.stage, run.batches, run.row = "start", 0, {}
                trainer.epoch -= 1
            _start_epoch(run.train_loader, rest.get("loader"), trainer.epoch)
        run.skip = 0 if _keeps_state(run.train_loader) or run.stage != "train" else run.batches
        if run.stage != "start":
            for callback in run.callbacks:
                callback.on_epoch_start(trainer)
        for callback, state in self._callback_states(extra):
            callback.load_state_dict(state)


def _start_epoch(loader: Any, state: Any, epochs: int) -> None:
    """Makes the next iteration of a loader that counts its epochs the one after the last complete epoch."""
    if hasattr(loader, "set_epoch"):
        saved = state.get("epoch") if isinstance(state, dict) else None
        loader.set_epoch(saved if isinstance(saved, int) and saved >= 0 else epochs)


def _stored_facts(rest: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    """Returns the facts that a file records; None for a file of an older netcl. Raises CheckpointError if it is no run
    of a Trainer.
    """
    extra = rest.get("extra")
    if not isinstance(extra, dict) or extra.get("trainer") != _VERSION:
        raise CheckpointError("holds weights, but no run of a Trainer to resume", path)
    facts = extra.get("facts")
    return facts if isinstance(facts, dict) else None


def _position(rest: Mapping[str, Any]) -> tuple[int, int, int]:
    """Returns epoch, step and samples; raises ValueError or TypeError if the position of a run is malformed."""
    extra = rest["extra"]
    position = (rest["epoch"], rest["step"], extra["samples"])
    for name, value in (*zip(("epoch", "step", "samples"), position), ("batches", extra["batches"])):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} must be a whole number from 0 on, got {value!r:.50}")
    if extra["stage"] not in ("start", "train", "trained", "validate"):
        raise ValueError(
            f"the stage of a run must be 'start', 'train', 'trained' or 'validate', got {extra['stage']!r:.50}"
        )
    rows = [*extra["history"], extra["row"]]
    if not isinstance(extra["history"], list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError("the history of a run must be a list of dicts")
    if extra["stage"] == "validate" and not {"seconds", "samples_per_second"} <= set(extra["row"]):
        raise ValueError(f"the row of an epoch lacks its timing: {sorted(extra['row'])}")
    float(extra["seconds"])
    return position


def _report(path: Path, changes: Iterable[Change], accepted: Mapping[str, Change], unknown: bool) -> None:
    """Warns of the changes of a run that was resumed."""
    lines = []
    for change in changes:
        new = change.fact.name in accepted or not change.fact.stored
        lines.append(f"{change} ({'the new one is used' if new else 'that of the checkpoint is used'})")
    if unknown:
        lines.append("it records no facts, as it is of an older netcl: nothing was compared")
    if lines:
        warnings.warn(f"{path} is resumed; " + "\n    ".join(lines), UserWarning, stacklevel=level_outside())


def find_checkpoint(resume: str | PathLike[str], folders: Iterable[Path]) -> Path | None:
    """Returns the file for ``fit(resume=...)``: the path itself, or the furthest intact checkpoint of a folder or, with
    "auto", of ``folders``; None if "auto" finds none.
    """
    if resume == "auto":
        places = list(folders)
        if not places:
            raise ValueError('resume="auto" looks into the folder of a ModelCheckpoint, and the Trainer has none')
        latest_of = (latest_checkpoint(place) for place in places if place.is_dir())
        return next((path for path in latest_of if path is not None), None)
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
