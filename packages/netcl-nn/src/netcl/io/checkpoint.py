"""Checkpoints: the complete state of a training run in one file."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random.mtrand import get_bit_generator

from netcl.core import Tensor
from netcl.core.errors import NetclError, from_here
from netcl.core.process.user_frame import level_outside
from netcl.core.tensor.generator import Generator
from netcl.io.archive import Archive, Entry, entry_of, write_archive
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.io.model import FORMAT as MODEL_FORMAT
from netcl.io.model import VERSIONS as MODEL_VERSIONS
from netcl.io.pytree import flatten, unflatten
from netcl.nn.module import holds_module
from netcl.nn.state import check_state
from netcl.ops import get_rng_state, set_rng_state

FORMAT = "netcl.checkpoint"
VERSIONS = (3,)
_FORMATS = {FORMAT: VERSIONS}
_ALL_FORMATS = {**_FORMATS, MODEL_FORMAT: MODEL_VERSIONS}
# Exceptions of objects that are given states by a file.
_MISFITS = (NetclError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@from_here
def save_checkpoint(
    model_or_params: Any,
    path: str | os.PathLike[str],
    *,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    ema: Any = None,
    loader: Any = None,
    rng: bool = True,
    epoch: int = 0,
    step: int = 0,
    metrics: Mapping[str, Any] | None = None,
    extra: Any = None,
    optim_state: Mapping[str, Any] | None = None,
    config: Any = None,
    names: Sequence[str] | None = None,
) -> None:
    """Writes a model (a Module, a dict, or parameters with ``names``) and all other given states to exactly ``path``,
    atomically.

    Optimizer, scheduler, scaler, ema and loader are saved by their ``state_dict()``; ``rng`` adds the generators of
    netcl, NumPy and Python. ``optim_state`` is a state in place of an optimizer. ``metrics``, ``extra`` and ``config``
    are plain values, tensors and arrays. Raises CheckpointError if the file cannot be written; an old file is intact
    then.
    """
    tree: dict[str, Any] = {"model": _state_of(model_or_params, names)}
    objects = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "ema": ema, "loader": loader}
    tree.update({name: thing.state_dict() for name, thing in objects.items() if thing is not None})
    if optim_state is not None:
        tree["optimizer"] = optim_state
    if rng:
        tree["rng"] = _rng_state()
    tree.update({"epoch": epoch, "step": step, "metrics": dict(metrics or {}), "extra": extra, "config": config})
    entries: list[Entry] = []
    try:
        plain = {name: flatten(value, name, entries) for name, value in tree.items()}
    except TypeError as error:
        raise CheckpointError(f"cannot be saved: {error}", path) from error
    write_archive(path, {"format": FORMAT, "version": 3, "type": "checkpoint", "tree": plain}, entries)


@from_here
def load_checkpoint(
    path: str | os.PathLike[str],
    model: Any = None,
    *,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    ema: Any = None,
    loader: Any = None,
    rng: bool = True,
    strict: bool = True,
    names: Sequence[str] | None = None,
    budget: Budget | None = None,
    validate: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Restores the state of a checkpoint into the given objects, and returns the rest: epoch, step, metrics, extra,
    config, and states that were not requested.

    The file and all states, also of the random generators, are checked before anything is written; states that were not
    requested are returned as arrays. ``model`` is a Module, a dict of tensors, or parameters with ``names``.
    ``validate`` is called with the dict to return before anything is written, and may raise. Raises CheckpointError for
    a damaged file, or a state that is missing or does not fit.
    """
    with Archive(path, _FORMATS, budget) as archive:
        archive.check()
        # The model's arrays are read one by one when they are written into it.
        late = ("model",) if model is not None else ()
        try:
            stored = archive.meta["tree"]
            tree = {
                name: unflatten(value, archive.described if name in late else archive.read)
                for name, value in stored.items()
            }
            keys = {name: unflatten(stored[name], str) for name in late if name in stored}
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise archive.refuse(f"its states are malformed ({error})") from error
        objects = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "ema": ema, "loader": loader}
        requested = {name: thing for name, thing in objects.items() if thing is not None}
        absent = [name for name in (*requested, *(["model"] if model is not None else [])) if name not in tree]
        if absent:
            raise archive.refuse(f"has no {', '.join(absent)}; it has {', '.join(sorted(tree))}")
        taken = {*requested, "rng", *(["model"] if model is not None else [])}
        rest = {name: value for name, value in tree.items() if name not in taken}
        try:
            tensors = _state_of(model, names) if model is not None else {}
            if model is not None:
                check_state("the model", tensors, tree["model"], strict)
            if rng and "rng" in tree:
                _check_rng_state(tree["rng"])
            if validate is not None:
                validate(rest)
            _load(tree, requested)
        except CheckpointError:
            raise
        except _MISFITS as error:
            raise archive.refuse(f"does not fit: {error}") from error
        _write(archive, tensors, tree.get("model", {}), keys.get("model", {}))
    if rng and "rng" in tree:
        _set_rng_state(tree["rng"])
    return rest


def read_states(path: str | os.PathLike[str], *wanted: str) -> dict[str, Any]:
    """Returns only the named states of a checkpoint, with arrays, without comparing the whole file with its hash: to
    decide which states ``load_checkpoint`` shall load. Raises CheckpointError.
    """
    with Archive(path, _FORMATS) as archive:
        try:
            tree = archive.meta["tree"]
            return {name: unflatten(tree[name], archive.read) for name in wanted if name in tree}
        except _MISFITS as error:
            raise archive.refuse(f"its states are malformed ({error})") from error


def _write(archive: Archive, tensors: Mapping[str, Tensor], stored: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    """Reads the model's arrays one by one into its tensors. The file has been read completely before, so that only an
    error of the disk can interrupt this.
    """
    present = [name for name in tensors if name in stored]
    for index, name in enumerate(present):
        try:
            tensors[name].write(archive.read(keys[name]))
        except CheckpointError as error:
            if not index:
                raise
            raise archive.refuse(
                f"could be read once, but not again: {index} of {len(present)} arrays of the model are from the file, "
                f"from {name!r} on they are not; load a checkpoint before you use this model ({error})"
            ) from error


def _load(tree: Mapping[str, Any], objects: Mapping[str, Any]) -> None:
    """Restores the state of every object; all states are checked before the first is written."""
    for name, thing in objects.items():
        if hasattr(thing, "check_state_dict"):
            thing.check_state_dict(tree[name])
    # Small states without a check of their own can be restored after a failure; they are loaded first.
    order = sorted(objects, key=lambda name: hasattr(objects[name], "check_state_dict"))
    before: dict[str, Any] = {}
    try:
        for name in order:
            if not hasattr(objects[name], "check_state_dict"):
                before[name] = objects[name].state_dict()
            objects[name].load_state_dict(tree[name])
    except Exception:
        for name, state in before.items():
            objects[name].load_state_dict(state)
        raise


def _state_of(model: Any, names: Sequence[str] | None) -> dict[str, Any]:
    if isinstance(model, Mapping):
        return dict(model)
    if holds_module(model):
        return dict(model.state_dict(keep_vars=True))
    tensors = list(model)
    labels = [str(number) for number in range(len(tensors))] if names is None else list(names)
    if len(set(labels)) != len(tensors):
        raise ValueError(f"expected {len(tensors)} different names for the parameters, got {labels}")
    return dict(zip(labels, tensors))


def _rng_state() -> dict[str, Any]:
    version, numbers, gauss = random.getstate()
    return {
        "netcl": get_rng_state(),
        "numpy": np.random.get_state(legacy=False),
        "python": {"version": version, "state": np.array(numbers, np.int64), "gauss": gauss},
    }


def _check_rng_state(state: Mapping[str, Any]) -> None:
    """Sets new generators to the states, which raises the errors of ``_set_rng_state`` without changing the process's
    generators.
    """
    try:
        Generator().set_state(state["netcl"])
        # NumPy takes any position, and reads that word of its state.
        numbers = state["numpy"]["state"]
        if state["numpy"]["bit_generator"] == "MT19937" and not 0 <= numbers["pos"] <= len(numbers["key"]) == 624:
            raise ValueError(f"a position of {numbers['pos']} in the {len(numbers['key'])} words of MT19937")
        np.random.RandomState(type(get_bit_generator())()).set_state(state["numpy"])
        random.Random().setstate(_python_state(state["python"]))
    except _MISFITS as error:
        raise ValueError(f"the state of the random generators is malformed ({error})") from error


def _set_rng_state(state: Mapping[str, Any]) -> None:
    set_rng_state(state["netcl"])
    np.random.set_state(state["numpy"])
    random.setstate(_python_state(state["python"]))


def _python_state(stored: Mapping[str, Any]) -> tuple[Any, ...]:
    gauss = stored["gauss"]
    if gauss is not None and not isinstance(gauss, float):
        raise TypeError(f"expected a number or None in the state of Python's generator, got {gauss!r}")
    return stored["version"], tuple(int(n) for n in stored["state"]), gauss


# -- parameters alone
# --------------------------------------------------------------------------------------------------------


@from_here
def save_params(params: Iterable[Tensor], path: str | os.PathLike[str], names: Sequence[str] | None = None) -> None:
    """Writes tensors under ``names`` (default 0, 1, ...) to exactly ``path``, atomically. Raises CheckpointError."""
    entries = [entry_of(f"model/{name}", tensor) for name, tensor in _state_of(params, names).items()]
    tree = {"model": {"dict": [[entry.key[len("model/") :], {"array": entry.key}] for entry in entries]}}
    write_archive(path, {"format": FORMAT, "version": 3, "type": "parameters", "tree": tree}, entries)


@from_here
def load_params(
    queue: Any,
    params: Iterable[Tensor] | None,
    path: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    *,
    budget: Budget | None = None,
) -> list[Tensor]:
    """Reads a file of ``save_params`` into ``params``; with None, creates new tensors on ``queue``. Returns the
    tensors. Raises CheckpointError.
    """
    if params is None:
        with Archive(path, _FORMATS, budget) as archive:
            archive.check()
            tensors_read = []
            for key, (_, dtype) in archive.arrays.items():
                if key.startswith("model/"):
                    with archive.reading.at(f"the array {key!r}"):
                        tensors_read.append(Tensor.from_host(queue, archive.read(key), dtype))
            return tensors_read
    tensors = list(params)
    load_checkpoint(path, tensors, rng=False, names=names, budget=budget)
    return tensors


# -- files
# -------------------------------------------------------------------------------------------------------------------


@from_here
def verify(path: str | os.PathLike[str], *, budget: Budget | None = None) -> dict[str, Any]:
    """Reads a file completely and compares it with its hash; returns its format, version, type and arrays. Raises
    CheckpointError if it is damaged.
    """
    with Archive(path, _ALL_FORMATS, budget) as archive:
        archive.check()
        return {
            **{key: archive.meta[key] for key in ("format", "version")},
            "type": archive.meta.get("type"),
            "arrays": dict(archive.arrays),
        }


@from_here
def latest_checkpoint(folder: str | os.PathLike[str], *, budget: Budget | None = None) -> Path | None:
    """Returns the undamaged checkpoint of ``folder`` that is furthest by epoch and step, the newest of equals; None if
    there is none. ``budget`` limits the memory and time of each file.

    A file with the ending ``.netcl`` or the marks of a checkpoint that cannot be used is skipped with a warning; other
    files are skipped.
    """
    best: tuple[tuple[int, int, int], Path] | None = None
    for path in sorted(Path(folder).iterdir()):
        if not path.is_file() or path.name.startswith("."):
            continue
        try:
            place = _place(path, budget)
        except Exception as error:  # noqa: BLE001 - one hostile file must not keep a run from its own
            warnings.warn(f"latest_checkpoint skips a file: {error}", UserWarning, stacklevel=level_outside())
            continue
        if place is not None and (best is None or place > best[0]):
            best = place, path
    return None if best is None else best[1]


def _place(path: Path, budget: Budget | None) -> tuple[int, int, int] | None:
    """Returns epoch, step and time of a checkpoint; None for a file of another kind."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(Archive(path, _ALL_FORMATS, budget))
        except CheckpointError:
            if path.suffix == ".netcl" and path.exists():
                raise
            return None
        if archive.meta["format"] != FORMAT:
            return None
        archive.check()
        tree = archive.meta.get("tree")
        if not isinstance(tree, dict):
            raise archive.refuse("its states are malformed")
        epoch, step = tree.get("epoch", 0), tree.get("step", 0)
        for name, value in (("epoch", epoch), ("step", step)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise archive.refuse(f"its {name} is no number of {name}s but {value!r:.50}")
        return epoch, step, path.stat().st_mtime_ns


from_here(globals())
