"""The facts (metadata) of a run that its checkpoints record, and their comparison when the run is resumed.

``FACTS`` is the table: a row per fact says how it is read from a Trainer, and if a difference in a resumed run is
refused or only reported. The page docs/how-to/long-runs.md shows the same table.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from netcl import nn
from netcl.core import Tensor
from netcl.trainer.data_fingerprint import data_fingerprint
from netcl.trainer.run_view import RunView
from netcl.trainer.versions import netcl_versions

_MISSING = "nothing"
_DEPTH = 8
_LISTED = 6
# Arguments that are not options: the objects it works on, and counts that change during a run.
_NO_OPTIONS = ("self", "optimizer", "model", "params", "last_epoch", "verbose", "device", "queue")

# The names of the arguments of classes, since a model has many instances of a class.
_arguments: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Fact:
    """A property of a run: ``read(trainer, train_loader)`` returns plain values, None if it is unknown.

    If it differs, ``refused`` says that the resume is refused unless it is named in ``resume_changes``; otherwise the
    change is reported.
    """

    name: str
    read: Callable[[RunView, Any], Any]
    refused: bool
    meaning: str
    stored: bool = True  # True if the checkpoint's value is used unless the change is accepted


@dataclass(frozen=True)
class Change:
    """A fact that differs between a checkpoint and the resuming run."""

    fact: Fact
    before: Any
    now: Any

    def __str__(self) -> str:
        differences = list(_differences(self.before, self.now, ""))
        listed = [f"{place}{before} in the checkpoint, {now} now" for place, before, now in differences[:_LISTED]]
        more = [f"and {len(differences) - _LISTED} more"] if len(differences) > _LISTED else []
        return f"{self.fact.name}: " + "; ".join(listed + more)


# -- how a fact is read
# ----------------------------------------------------------------------------------------------------


def described(value: Any, depth: int = 0) -> Any:
    """Returns plain values that are equal for equal objects: the class with its options, names of functions and
    classes, and checksums of arrays.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Tensor, np.ndarray)):
        host = value.to_host() if isinstance(value, Tensor) else value
        return f"{host.dtype}{list(host.shape)} {zlib.crc32(np.ascontiguousarray(host).tobytes()):08x}"
    if isinstance(value, PurePath):
        return str(value)
    if depth > _DEPTH:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        return {str(key): described(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(item, depth + 1) for item in value]
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, partial):
        arguments = {"args": list(value.args), **value.keywords}
        return {"function": described(value.func, depth + 1), **described(arguments, depth + 1)}
    if callable(value) and not isinstance(value, nn.Module) and hasattr(value, "__name__"):
        return str(getattr(value, "__qualname__", value.__name__))
    return {"class": type(value).__qualname__, **_options(value, depth + 1)}


def _argument_names(cls: type) -> tuple[str, ...]:
    if cls not in _arguments:
        try:
            parameters = list(inspect.signature(cls).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        _arguments[cls] = tuple(
            parameter.name for parameter in parameters if parameter.kind in kinds and parameter.name not in _NO_OPTIONS
        )
    return _arguments[cls]


def option_names(thing: Any) -> list[str]:
    """Returns the arguments of the constructor that the object keeps under their names."""
    kept = getattr(thing, "__dict__", {})
    return [name for name in _argument_names(type(thing)) if name in kept]


def _options(thing: Any, depth: int = 0) -> dict[str, Any]:
    return {name: described(vars(thing)[name], depth) for name in option_names(thing)}


def _module(module: nn.Module) -> dict[str, Any]:
    """Returns the class and the options of one module; those within it are described under their own names."""
    facts: dict[str, Any] = {"class": type(module).__qualname__}
    for name in option_names(module):
        value = vars(module)[name]
        if name == "dtype" or isinstance(value, (Tensor, np.ndarray)):
            continue
        if isinstance(value, nn.Module):
            value = type(value)
        facts[name] = described(value, 1)
    return facts


def _model(trainer: RunView, loader: Any) -> dict[str, Any]:
    return {name or "model": _module(module) for name, module in trainer.model.named_modules()}


def _loss(trainer: RunView, loader: Any) -> Any:
    return described(trainer.training_step.measures.loss_fn)


def _loader(trainer: RunView, loader: Any) -> dict[str, Any]:
    facts = {"class": type(loader).__qualname__}
    sampler = getattr(loader, "sampler", None)
    if sampler is not None:
        facts["sampler"] = type(sampler).__qualname__
    return facts


def _lr(trainer: RunView, loader: Any) -> list[float]:
    # The rate that a schedule starts from: the current one is part of the optimizer's state.
    return [float(group.get("initial_lr", group["lr"])) for group in trainer.optimizer.param_groups]


def _optimizer_options(trainer: RunView, loader: Any) -> dict[str, Any]:
    # The defaults: schedules may change the values of the groups during a run.
    defaults = getattr(trainer.optimizer, "defaults", {})
    return {str(key): described(value) for key, value in defaults.items() if key not in ("lr", "params")}


def _device(trainer: RunView, loader: Any) -> str | None:
    handle = _handle(trainer)
    return None if handle is None else f"{handle.platform_name}, {handle.device_name}"


def _driver(trainer: RunView, loader: Any) -> str | None:
    handle = _handle(trainer)
    if handle is None:
        return None
    driver = getattr(getattr(handle, "device", None), "driver_version", None)
    return f"NumPy {np.__version__}" if driver is None else str(driver).strip()


def _handle(trainer: RunView) -> Any:
    first = next(iter(trainer.model.parameters()), None)
    return None if first is None else first.device


def _precision(trainer: RunView, loader: Any) -> Any:
    return trainer.training_step.autocast_dtype or "float32"


def _ranks(trainer: RunView, loader: Any) -> int:
    return int(getattr(getattr(trainer.model, "group", None), "size", 1))


FACTS = (
    Fact("optimizer", lambda trainer, _: type(trainer.optimizer).__qualname__, True, "class of the optimizer"),
    Fact("scheduler", lambda trainer, _: described(trainer.scheduler) or _MISSING, True, "class and options"),
    Fact("loss", _loss, True, "function, or class and options"),
    Fact("accumulation", lambda trainer, _: trainer.accumulation_steps, True, "`accumulation_steps`"),
    Fact("model", _model, True, "class and options of each module: activation, dropout, sizes"),
    Fact("loader", _loader, True, "class of the loader and of its sampler"),
    Fact("batch_size", lambda _, loader: getattr(loader, "batch_size", None), True, "samples per batch"),
    Fact("drop_last", lambda _, loader: getattr(loader, "drop_last", None), True, "drop a short last batch"),
    Fact("data", lambda _, loader: data_fingerprint(loader), True, "fingerprint of the training data"),
    Fact("lr", _lr, False, "the rate that each group was made with"),
    Fact("optimizer_options", _optimizer_options, False, "the other options of the optimizer"),
    Fact("grad_clip", lambda trainer, _: trainer.training_step.grad_clip or _MISSING, False, "`grad_clip`", False),
    Fact("precision", _precision, False, "`mixed_precision`", False),
    Fact(
        "ema", lambda trainer, _: described(trainer.ema) or _MISSING, False, "class and options of the averages", False
    ),
    Fact("ranks", _ranks, False, "number of ranks of the group", False),
    Fact("device", _device, False, "platform and name", False),
    Fact("driver", _driver, False, "version of the driver, or of NumPy", False),
    Fact("versions", lambda _, __: netcl_versions(), False, "versions of netcl's distributions", False),
)
_BY_NAME = {fact.name: fact for fact in FACTS}


def facts_of(trainer: RunView, loader: Any) -> dict[str, Any]:
    """Returns all facts by name, as plain values for a checkpoint."""
    return {fact.name: fact.read(trainer, loader) for fact in FACTS}


# -- comparison
# ------------------------------------------------------------------------------------------------------------


def changed(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the facts that differ; one that is unknown on either side is not compared."""
    pairs = [(fact, stored.get(fact.name), now.get(fact.name)) for fact in FACTS]
    return [
        Change(fact, before, after)
        for fact, before, after in pairs
        if before is not None and after is not None and any(_differences(before, after, ""))
    ]


def _differences(before: Any, now: Any, place: str) -> Iterable[tuple[str, Any, Any]]:
    """Yields (place, value before, value now) of each difference."""
    if isinstance(before, dict) and isinstance(now, dict) and before.get("class") == now.get("class"):
        for key in [*before, *(key for key in now if key not in before)]:
            inner = f"{place}{key} "
            if key not in before or key not in now:
                yield inner, _short(before.get(key, _MISSING)), _short(now.get(key, _MISSING))
            else:
                yield from _differences(before[key], now[key], inner)
    elif repr(before) != repr(now):  # NaN differs from itself
        yield place, _short(before), _short(now)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("class", value)
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_resume_changes(given: Any) -> None:
    """Raises ValueError unless ``given`` is "refuse", "allow", or names of facts."""
    if given in ("refuse", "allow"):
        return
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f'resume_changes must be "refuse", "allow" or a list of names, got {given!r}')
    unknown = [name for name in given if name not in _BY_NAME]
    if unknown:
        raise ValueError(f"resume_changes: {unknown[0]!r} is no recorded fact; expected one of {', '.join(_BY_NAME)}")


def is_allowed(change: Change, given: str | Iterable[str]) -> bool:
    """Returns True if ``resume_changes=given`` accepts the change, so that the new value is used."""
    return given == "allow" or (not isinstance(given, str) and change.fact.name in given)
