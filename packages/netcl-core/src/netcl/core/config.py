"""Every NETCL_ environment variable: name, type, default and meaning, read at each use."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from netcl.core.errors import ConfigError

if TYPE_CHECKING:
    import logging

_FALSE = frozenset({"", "0", "false", "no", "off"})
_TRUE = frozenset({"1", "true", "yes", "on"})
# The numbers of module logging; "kernels" is info plus the texts of generated kernels.
_LEVELS = {"debug": 10, "kernels": 20, "info": 20, "warning": 30, "error": 40, "critical": 50}


@dataclass(frozen=True)
class Variable:
    """A NETCL_ variable: ``name`` without the prefix, ``type``, typed ``default`` (None: unset), ``meaning``.

    ``type`` is bool, int, float, str, path, level, or the accepted words separated by spaces.
    """

    name: str
    type: str
    default: bool | int | float | str | None
    meaning: str
    minimum: float | None = None
    maximum: float | None = None

    @property
    def environment(self) -> str:
        """The name in the environment."""
        return "NETCL_" + self.name

    @property
    def accepted(self) -> str:
        """The accepted values, in words."""
        if self.type == "bool":
            return "1 true yes on, or 0 false no off or empty"
        if self.type == "level":
            return "one of " + " ".join(_LEVELS)
        if self.type in ("int", "float"):
            noun = "an integer" if self.type == "int" else "a finite number"
            if self.minimum is not None and self.maximum is not None:
                return f"{noun} from {self.minimum:g} to {self.maximum:g}"
            return noun if self.minimum is None else f"{noun}, at least {self.minimum:g}"
        if self.type == "path":
            return "a folder"
        return "a text" if self.type == "str" else "one of " + self.type


_ROWS = (
    Variable(
        "KERNEL_STRATEGY",
        "auto portable optimized",
        "auto",
        "portable: no kernels that use sub-groups; else the device decides",
    ),
    Variable(
        "FLOAT32_MATMUL",
        "highest high medium",
        "highest",
        "precision of float32 products on a GPU's matrix unit, as set_float32_matmul_precision sets it",
    ),
    Variable(
        "AUTOCAST_ON_CPUS",
        "measured half",
        "measured",
        "half: autocast computes in its dtype on CPUs too where float32 is as fast",
    ),
    Variable("CONV_WINOGRAD", "bool", True, "allows Winograd for 3x3 convolutions of stride 1"),
    Variable("CONV_TILED_LOCAL", "bool", False, "GPUs run convolutions of small outputs by the local memory kernel"),
    Variable("MAX_CACHED_GB", "float", 4.0, "cap of PersistentBufferPool's cached buffers, in GiB", 0, 2**33),
    Variable("ASYNC_H2D", "bool", True, "default of Tensor.from_host(async_copy=)"),
    Variable("PINNED_H2D", "bool", True, "default of Tensor.from_host(use_pinned=)"),
    Variable("PROFILE_EVENTS", "bool", False, "requests PROFILING_ENABLE on new queues"),
    Variable("DEVICE", "str", "auto", "the default device, any selector of manager.default"),
    Variable("PLATFORM_FILTER", "str", "", "part of the names of the OpenCL platforms to use; empty: all"),
    Variable("CACHE_DIR", "path", None, "folder of programs (not PoCL's) and measurements; unset: the user's"),
    Variable("CACHE", "bool", True, "keeps programs and measurements on disk"),
    Variable("CACHE_MAX_MB", "int", 1024, "size of the cache on disk, in MiB", 0, 2**43),
    Variable("POOL_BUDGET_FRAC", "float", 0.85, "part of the device's memory that the pools may hold", 0, 1),
    Variable("PINNED_MAX_MB", "int", 512, "cap of page-locked host memory, in MiB", 0, 2**43),
    Variable("AUTOTUNE", "off cached on", "cached", "off: rules alone; cached: stored measurements; on: measure"),
    Variable("FAST_MATH", "bool", False, "default of fast_math"),
    Variable("DETERMINISTIC", "bool", False, "the same seed and driver give the same bits, or an error"),
    Variable("COMMAND_BUFFER", "bool", True, "replays captured steps by cl_khr_command_buffer if the driver has it"),
    Variable(
        "REPLAY",
        "on off early",
        "on",
        "predicts the calls of training loops, and computes them as captured steps; early: from the second step on",
    ),
    Variable(
        "CHECK_CAPTURE",
        "int",
        0,
        "Trainer compares a captured step with an eager one every n steps; 0: never",
        0,
        2**31 - 1,
    ),
    Variable(
        "WATCHDOG_S", "float", 30.0, "seconds after which a kernel that hangs is named in a warning; 0: off", 0, 1e9
    ),
    Variable("DIST_TIMEOUT_S", "float", 30.0, "timeout of collectives, in seconds", 0, 1e9),
    Variable(
        "DIST_STAGING",
        "auto on off",
        "auto",
        "gradients pass between ranks by page-locked memory and are summed on the devices; auto: if all are GPUs",
    ),
    Variable("SIGINT", "bool", True, "installs the handler that ends a process stuck in a kernel"),
    Variable("PROGRESS", "bool", True, "shows on a terminal that kernels are built for the first time"),
    Variable(
        "BUILD_PROCESSES",
        "int",
        None,
        "child processes that build programs at once; 0: none; unset: the cores but one, up to 7, for a GPU 4",
        0,
        256,
    ),
    Variable("SYNC", "bool", False, "waits after each launch, so that an error names the kernel that caused it"),
    Variable("POISON", "bool", False, "fills memory of undefined content with NaN or large numbers"),
    Variable("SEED", "int", None, "seed of every generator; unset: fresh each process", 0, 2**64 - 1),
    Variable("LOG", "level", "warning", "level of the logger netcl; kernels also shows generated kernels"),
    Variable("RANK", "int", None, "rank of this process, set by the launcher", 0, 2**31 - 1),
    Variable("WORLD_SIZE", "int", None, "number of processes, set by the launcher", 1, 2**31 - 1),
    Variable("LOCAL_RANK", "int", None, "rank on this host, set by the launcher", 0, 2**31 - 1),
    Variable("RENDEZVOUS", "str", None, "where the processes meet, set by the launcher"),
)
VARIABLES: Mapping[str, Variable] = MappingProxyType({row.name: row for row in _ROWS})

_ENVIRONMENT = {row.name: row.environment for row in _ROWS}
# The keys of the dictionary inside of os.environ: its own get takes a microsecond for a variable that is not set: two
# exceptions. An eager op asks for up to eight variables.
_KEYS = {name: getattr(os.environ, "encodekey", str)(text) for name, text in _ENVIRONMENT.items()}
# Parsed values by (name, raw text): the environment is read at each use, its text is parsed once.
_parsed: dict[tuple[str, Any], Any] = {}
_override_lock = threading.RLock()
_override_stack: list[dict[str, Any]] = []
_overrides: dict[str, Any] = {}  # the merged stack; replaced, never changed, so readers need no lock


def _bad_value(variable: Variable, raw: str) -> ConfigError:
    return ConfigError(
        f"{variable.environment}={raw!r} is not valid: accepted is {variable.accepted}", parameter=variable.environment
    )


def _number(variable: Variable, raw: str) -> int | float:
    try:
        if not raw.isascii() or "_" in raw:  # Python's own number syntax, and digits of other scripts
            raise ValueError(raw)
        value = int(raw) if variable.type == "int" else float(raw)
    except ValueError:
        raise _bad_value(variable, raw) from None
    low = -math.inf if variable.minimum is None else variable.minimum
    high = math.inf if variable.maximum is None else variable.maximum
    if not low <= value <= high or value == math.inf:  # also refuses NaN
        raise _bad_value(variable, raw)
    return value


def _default(variable: Variable) -> Any:
    if variable.type == "path" and variable.default is None:
        from pathlib import Path

        import platformdirs

        # Without a home folder the path begins with "~": cache_files finds that it cannot be used.
        return Path(platformdirs.user_cache_dir("netcl", appauthor=False))
    return variable.default


def _parse(variable: Variable, raw: str | None) -> Any:
    """Returns the typed value of a text; an unset variable, and an empty one that is no bool, has its default."""
    text = None if raw is None else raw.strip()
    if text is None or (not text and variable.type != "bool"):
        return _default(variable)
    if variable.type == "bool":
        if text.lower() in _FALSE:
            return False
        if text.lower() in _TRUE:
            return True
        raise _bad_value(variable, text)
    if variable.type in ("int", "float"):
        return _number(variable, text)
    if variable.type == "path":
        from pathlib import Path  # pathlib takes 5 ms of the first import

        try:
            return Path(text).expanduser()
        except RuntimeError:  # the home of an unknown user
            raise _bad_value(variable, text) from None
    if variable.type == "str":
        return text
    words = tuple(_LEVELS) if variable.type == "level" else tuple(variable.type.split())
    if text.lower() not in words:
        raise _bad_value(variable, text)
    return text.lower()


def _variable(name: str) -> Variable:
    variable = VARIABLES.get(name)
    if variable is None:
        import difflib  # a misspelled name is rare

        close = difflib.get_close_matches(name.removeprefix("NETCL_"), VARIABLES, n=1, cutoff=0.0)
        raise ConfigError(f"netcl has no variable {name!r}; did you mean {close[0]!r}?", parameter=name)
    return variable


def get(name: str) -> Any:
    """Returns the value of NETCL_``name``, typed, from the overrides or the environment.

    Raises ConfigError for an unknown name, or a value the variable cannot take.

    >>> get("CONV_WINOGRAD")
    True
    """
    overrides = _overrides
    if overrides and name in overrides:
        return overrides[name]
    key = _KEYS.get(name)
    if key is None:
        _variable(name)
        raise AssertionError("unreachable")
    try:
        raw = os.environ._data.get(key)  # type: ignore[attr-defined]
    except AttributeError:  # another mapping in its place
        raw = os.environ.get(_ENVIRONMENT[name])
    try:
        return _parsed[name, raw]
    except KeyError:
        value = _parsed[name, raw] = _parse(VARIABLES[name], os.fsdecode(raw) if isinstance(raw, bytes) else raw)
        return value


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, bool) else str(value)


@contextmanager
def override(**values: Any) -> Iterator[None]:
    """Sets NETCL_ variables within the block, process-wide; None means the default.

    Values are typed or texts as in the environment, checked on entry (raises ConfigError). Blocks nest; of concurrent
    blocks of several threads, the one entered last wins.

    >>> with override(CONV_WINOGRAD=False):
    ...     get("CONV_WINOGRAD")
    False
    """
    layer = {name: _parse(_variable(name), _as_text(value)) for name, value in values.items()}
    with _override_lock:
        _override_stack.append(layer)
        _merge_overrides()
    try:
        yield
    finally:
        with _override_lock:
            # Another thread's block may be above this one: drop this very layer, not the topmost or an equal one.
            _override_stack[:] = [other for other in _override_stack if other is not layer]
            _merge_overrides()


def _merge_overrides() -> None:
    global _overrides
    merged: dict[str, Any] = {}
    for layer in _override_stack:
        merged.update(layer)
    _overrides = merged


def get_logger(name: str = "netcl") -> logging.Logger:
    """Returns the logger ``name`` (``netcl`` or below), with the level of NETCL_LOG applied to ``netcl``.

    A level that the application set itself stays while NETCL_LOG is unset. With NETCL_LOG set and no logging configured
    by the application, messages go to stderr.
    """
    import logging  # 3 ms of the first import

    logger = logging.getLogger("netcl")
    if "LOG" in _overrides or os.environ.get("NETCL_LOG"):
        level = _LEVELS[get("LOG")]
        if logger.level != level:
            logger.setLevel(level)
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(name)s: %(levelname)s: %(message)s"))
            logger.addHandler(handler)
    return logging.getLogger(name)
