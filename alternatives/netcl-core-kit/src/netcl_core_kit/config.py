"""The NETCL_ variables: typed, from overrides or the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from netcl_core_kit.errors import ConfigError

__all__ = ["VARIABLES", "Variable", "get", "get_logger", "override"]


@dataclass(frozen=True)
class Variable:
    """A variable NETCL_``name``; ``type`` is bool, int, float, str, path, level, or the accepted words."""

    name: str
    type: str
    default: Any
    meaning: str
    minimum: float | None = None
    maximum: float | None = None


VARIABLES = {
    name: Variable(name, kind, default, meaning, minimum)
    for name, kind, default, meaning, minimum in (
        ("DEVICE", "str", "auto", "the default device, any selector of manager.default", None),
        ("FAST_MATH", "bool", False, "default of fast_math", None),
        ("DETERMINISTIC", "bool", False, "the same seed gives the same bits, or an error", None),
        ("CHECK_CAPTURE", "int", 0, "Trainer compares a captured step with an eager one every n steps", 0),
        ("AUTOTUNE", "off cached on", "cached", "kept for programs that set it; PyTorch chooses its kernels", None),
        ("PROFILE_EVENTS", "bool", False, "kept for programs that set it", None),
        ("ASYNC_H2D", "bool", True, "kept for programs that set it", None),
        ("PINNED_H2D", "bool", True, "kept for programs that set it", None),
        ("CACHE_DIR", "path", None, "folder of measurements; unset: the user's", None),
        ("CACHE", "bool", True, "keeps measurements on disk", None),
        ("WATCHDOG_S", "float", 30.0, "seconds after which a kernel that hangs is named; 0: off", 0),
        ("DIST_TIMEOUT_S", "float", 30.0, "timeout of collectives, in seconds", 0),
        ("PROGRESS", "bool", True, "shows progress on a terminal", None),
        ("SEED", "int", None, "seed of every generator; unset: fresh each process", None),
        ("LOG", "level", "warning", "level of the logger netcl", None),
        ("RANK", "int", None, "rank of this process, set by the launcher", 0),
        ("WORLD_SIZE", "int", None, "number of processes, set by the launcher", 1),
        ("LOCAL_RANK", "int", None, "rank on this host, set by the launcher", 0),
        ("RENDEZVOUS", "str", None, "where the processes meet, set by the launcher", None),
    )
}
_LEVELS = ("debug", "info", "warning", "error", "critical", "kernels")
_overrides: list[dict[str, Any]] = []


def _variable(name: str) -> Variable:
    if name not in VARIABLES:
        raise ConfigError(f"there is no variable NETCL_{name}; there are {', '.join(VARIABLES)}")
    return VARIABLES[name]


def _typed(variable: Variable, value: Any) -> Any:
    kind, text = variable.type, str(value).strip()
    try:
        if kind == "bool":
            made: Any = value if isinstance(value, bool) else text.lower() not in ("", "0", "false", "no", "off")
        elif kind in ("int", "float"):
            made = int(text) if kind == "int" else float(text)
            if variable.minimum is not None and made < variable.minimum:
                raise ValueError
        else:
            made = text
            words = _LEVELS if kind == "level" else kind.split() if " " in kind else ()
            if words and (made := text.lower()) not in words:
                raise ValueError
    except ValueError:
        raise ConfigError(f"NETCL_{variable.name} is {value!r}, not of type {kind}") from None
    return made


def get(name: str) -> Any:
    """The value of NETCL_``name``; ConfigError for an unknown name or a value it cannot take."""
    variable = _variable(name)
    for values in reversed(_overrides):
        if name in values:
            return variable.default if values[name] is None else values[name]
    text = os.environ.get(f"NETCL_{name}")
    if text is None or (not text and variable.type != "bool"):
        return variable.default
    return _typed(variable, text)


@contextmanager
def override(**values: Any) -> Iterator[None]:
    """Sets variables within the block, process-wide; None is the default. ConfigError on entry."""
    checked = {name: value if value is None else _typed(_variable(name), value) for name, value in values.items()}
    for name in values:
        _variable(name)
    _overrides.append(checked)
    try:
        yield
    finally:
        _overrides[:] = [one for one in _overrides if one is not checked]


def get_logger(name: str = "netcl") -> logging.Logger:
    """The logger ``name``, with the level of NETCL_LOG applied to ``netcl``."""
    top = logging.getLogger("netcl")
    if os.environ.get("NETCL_LOG") and top.level == logging.NOTSET:
        level = get("LOG")
        top.setLevel(logging.DEBUG if level == "kernels" else level.upper())
    return logging.getLogger(name)
