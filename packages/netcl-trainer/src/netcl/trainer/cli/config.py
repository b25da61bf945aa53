"""Configurations: a TOML file read with the place of every key, so that errors name line and column and the
nearest known key.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netcl.core.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Annotations that values are checked against; other arguments are checked by the called class.
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


class ConfigFileError(ConfigError):
    """A configuration is invalid; the message begins with file, line and column."""


class Config:
    """The tables of a file, with ``--set`` values over them."""

    def __init__(self, path: str | Path, settings: Sequence[str] = ()) -> None:
        self.path: Path = Path(path)
        try:
            self.text: str = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigFileError(f"{path}: the configuration cannot be read: {reason}") from error
        try:
            self.values: dict[str, Any] = tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists thousands deep
            match = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
            place = ":".join(match.groups()) if match else f"{self.text.count(chr(10)) + 1}:1"
            reason = str(error).partition(" (at ")[0]
            raise ConfigFileError(f"{path}:{place}: this is not TOML: {reason}") from error
        self._places = _places(self.text)
        self._settings = tuple(settings)
        self._set: set[tuple[str, ...]] = set()
        for setting in settings:
            self._apply(setting)

    def _apply(self, setting: str) -> None:
        name, equals, text = setting.partition("=")
        keys = tuple(part.strip() for part in name.split("."))
        if not equals or not all(keys):
            raise ConfigFileError(f"--set {setting}: write table.key=value")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text  # a string without quotes
        table = self.values
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise ConfigFileError(f"--set {setting}: {key} is a value, no table")
        table[keys[-1]] = value
        self._set.add(keys)

    def __str__(self) -> str:
        """Returns the text of the file, and the ``--set`` values that override it."""
        return "\n".join([self.text.rstrip(), *(f"# --set {setting}" for setting in self._settings)])

    def where(self, *keys: str) -> str:
        """Returns ``file:line:column`` of a key, of its table if the key has no line, or ``--set a.b``."""
        if keys in self._set:
            return f"--set {'.'.join(keys)}"
        for count in range(len(keys), 0, -1):
            place = self._places.get(keys[:count])
            if place is not None:
                return f"{self.path}:{place[0]}:{place[1]}"
        return str(self.path)

    def error(self, message: str, *keys: str) -> ConfigFileError:
        """Returns an error at the line of ``keys``."""
        return ConfigFileError(f"{self.where(*keys)}: {message}")

    def table(self, *keys: str, required: bool = False) -> Table:
        """Returns the table under ``keys``; an empty one if it is missing and not ``required``."""
        value: Any = self.values
        for depth, key in enumerate(keys):
            if key not in value:
                if required:
                    raise self.error(f"the table [{'.'.join(keys)}] is missing")
                value = {}
                break
            value = value[key]
            if not isinstance(value, dict):
                raise self.error(f"{key} is a table [{'.'.join(keys[: depth + 1])}], not a value", *keys[: depth + 1])
        return Table(self, keys, dict(value))

    def check_tables(self, known: Sequence[str]) -> None:
        """Raises ConfigFileError for an unknown table, or an unknown value outside of the tables."""
        for key in self.values:
            if key not in known:
                raise self.error(f"unknown table [{key}]{nearest(key, known)}", key)


class Table:
    """One table: ``take`` returns a value and marks it as used; remaining keys are arguments of a class, or unknown."""

    def __init__(self, config: Config, keys: tuple[str, ...], values: dict[str, Any]) -> None:
        self.config: Config = config
        self.keys: tuple[str, ...] = keys
        self.values: dict[str, Any] = values
        self._taken: list[str] = []

    @property
    def name(self) -> str:
        return ".".join(self.keys)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def error(self, message: str, key: str = "") -> ConfigFileError:
        """Returns an error at a key of the table, or at the table."""
        return self.config.error(message, *self.keys, *([key] if key else []))

    def take(self, key: str, kind: str, default: Any = None, *, required: bool = False) -> Any:
        """Returns the value of ``key``, checked against ``kind`` (int, float, bool, str, list or any)."""
        self._taken.append(key)
        if key not in self.values:
            if required:
                raise self.error(f"[{self.name}] needs {key}{nearest_given(key, self.values)}")
            return default
        value = self.values.pop(key)
        self.check(key, value, kind)
        return value

    def check(self, key: str, value: Any, kind: str) -> None:
        """Raises ConfigFileError if ``value`` is not of ``kind``, or no value of a configuration: infinite, not a
        number, an integer beyond 64 bits, a text with a NUL.
        """
        strange = _strange(value)
        if strange:
            raise self.error(f"{key} in [{self.name}] must be {strange}", key)
        types = {**_KINDS, "list": (list,)}.get(kind)
        if types is None or (isinstance(value, types) and not (isinstance(value, bool) and kind != "bool")):
            return
        what = {**_WORDS, "list": "a list [..]"}[kind]
        raise self.error(f"{key} in [{self.name}] must be {what}, got {_shown(value)}", key)

    def done(self, later: Sequence[str] = ()) -> None:
        """Raises ConfigFileError for an unused key that ``later`` does not name."""
        for key in self.values:
            if key not in later:
                raise self._unknown(key, [*self._taken, *later])

    def call(self, function: Callable[..., Any], *args: Any, given: Iterable[str] = (), **keywords: Any) -> Any:
        """Calls ``function(*args, **keywords, **rest of the table)`` after checking keys and kinds against its
        signature.

        ``given``: arguments that ``args`` fill; no key may name them. Errors of the call are reported with the table's
        line.
        """
        filled = {*given, *keywords}
        parameters = {
            name: parameter
            for name, parameter in inspect.signature(function).parameters.items()
            if name not in filled and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
        for key, value in self.values.items():
            if key not in parameters:
                raise self._unknown(key, [*self._taken, *parameters])
            self.check(key, value, _kind(parameters[key].annotation, value))
        missing = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and name not in self.values
        ]
        if missing and len(args) == len(list(given)):
            raise self.error(f"[{self.name}] needs {', '.join(missing)}{nearest_given(missing[0], self.values)}")
        try:
            return function(*args, **keywords, **self.values)
        except (ValueError, TypeError, LookupError, OSError) as error:
            raise self.error(f"[{self.name}] cannot be made: {error}") from error
        except (ArithmeticError, AttributeError, MemoryError, RecursionError) as error:
            if not function.__module__.startswith("netcl."):
                raise  # code of the user's: its traceback says more
            raise self.error(f"[{self.name}] cannot be made: {type(error).__name__}: {error}") from error

    def _unknown(self, key: str, expected: Iterable[str]) -> ConfigFileError:
        names = sorted(set(expected))
        return self.error(f"unknown key {key!r} in [{self.name}]{nearest(key, names)}", key)


def _strange(value: Any) -> str:
    """Returns the requirement that a value of any kind breaks, "" if none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"a finite number, got {value}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "an integer of at most 64 bits"
    if isinstance(value, str) and "\0" in value:
        return f"a text without NUL, got {value!r}"
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(_strange, parts)), "")


_PLACES = ("root", "path", "paths", "folder", "file")


def call_of(entry: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """Returns name, arguments and keywords of an entry ``"ReLU"`` or ``["Conv2d", 1, 16, 3, {padding = 1}]``."""
    name, *args = entry if isinstance(entry, list) and entry else [entry]
    keywords: dict[str, Any] = dict(args.pop()) if args and isinstance(args[-1], dict) else {}
    return name if isinstance(name, str) else repr(name), args, keywords


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean ..? known are ..`` for an error message; for long lists only the nearest name."""
    by_text = {key.lower(): key for key in known}
    close = difflib.get_close_matches(name.lower(), list(by_text), 1, 0.6)
    # "path" should suggest "root", and "learning_rate" should suggest "lr".
    if not close and name in _PLACES:
        close = [key for key in by_text if key in _PLACES]
    close = close or [key for key in by_text if key == "".join(word[:1] for word in name.lower().split("_"))]
    meant = f"; did you mean {by_text[close[0]]!r}?" if close else ";"
    return meant if close and len(by_text) > 20 else f"{meant} known are {', '.join(by_text.values())}"


def nearest_given(name: str, given: Mapping[str, Any]) -> str:
    """Returns ``; is .. meant to be it?`` if a given key is close to a missing one."""
    close = difflib.get_close_matches(name, list(given), 1, 0.6)
    return f"; is {close[0]!r} meant to be it?" if close else ""


def _kind(annotation: Any, value: Any) -> str:
    """Returns the kind that a value must have for an annotation; "any" if several would do."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    parts = {part.strip() for part in str(text).split("|")} - {"None"}
    kinds = parts & set(_KINDS)
    if not kinds or parts - set(_KINDS):
        return "any"
    if len(kinds) == 1:
        return kinds.pop()
    fits = (kind for kind in kinds if isinstance(value, _KINDS[kind]))
    return next(fits, sorted(kinds)[0])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value!r}"
    return "a table" if isinstance(value, dict) else repr(value)


_HEADER = re.compile(r"^\s*\[\s*([\w.\-\"' ]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"^\s*([\w\-]+|\"[^\"]*\"|'[^']*')((?:\s*\.\s*[\w\-]+)*)\s*=")


def _places(text: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Returns the line and column of each table and key, from 1. A line within a multi-line string or list may be read
    as a key; no lookup uses such keys.
    """
    places: dict[tuple[str, ...], tuple[int, int]] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        place = number, len(line) - len(line.lstrip()) + 1
        if header:
            table = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
            for count in range(1, len(table) + 1):
                places.setdefault(table[:count], place)
        elif key:
            rest = [part.strip() for part in key.group(2).split(".") if part.strip()]
            path = (*table, key.group(1).strip("\"'"), *rest)
            for count in range(len(table) + 1, len(path) + 1):
                places.setdefault(path[:count], place)
    return places
