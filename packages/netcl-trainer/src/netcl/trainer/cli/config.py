"""Configurations: a TOML file read with the line of every key, so that errors say where they are and what is near."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Config", "ConfigFileError", "Table"]

# Annotations of arguments that a value can be held against; what is not here, the called class judges itself.
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


class ConfigFileError(ValueError):
    """A configuration that cannot be used; the message begins with file and line."""


class Config:
    """The tables of a file, with ``--set`` values over them."""

    def __init__(self, path: str | Path, settings: Sequence[str] = ()) -> None:
        self.path = Path(path)
        try:
            self.text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigFileError(f"{path}: the configuration cannot be read: {reason}") from error
        try:
            self.values: dict[str, Any] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            where = re.search(r"\(at line (\d+), column \d+\)", str(error))
            line = where.group(1) if where else str(self.text.count("\n") + 1)
            reason = str(error).partition(" (at ")[0]
            raise ConfigFileError(f"{path}:{line}: this is not TOML: {reason}") from error
        self._lines = _lines(self.text)
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
        except tomllib.TOMLDecodeError:
            value = text  # a text without quotes
        table = self.values
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise ConfigFileError(f"--set {setting}: {key} is a value, no table")
        table[keys[-1]] = value
        self._set.add(keys)

    def __str__(self) -> str:
        """The text of the file, and what ``--set`` put in its place."""
        return "\n".join([self.text.rstrip(), *(f"# --set {setting}" for setting in self._settings)])

    def where(self, *keys: str) -> str:
        """``file:line`` of a key, of its table where it has none, or ``--set a.b``."""
        if keys in self._set:
            return f"--set {'.'.join(keys)}"
        for count in range(len(keys), 0, -1):
            line = self._lines.get(keys[:count])
            if line is not None:
                return f"{self.path}:{line}"
        return str(self.path)

    def error(self, message: str, *keys: str) -> ConfigFileError:
        """An error at the place of ``keys``."""
        return ConfigFileError(f"{self.where(*keys)}: {message}")

    def table(self, *keys: str, required: bool = False) -> Table:
        """The table under ``keys``; an empty one where it is missing and not ``required``."""
        value: Any = self.values
        for at, key in enumerate(keys):
            if key not in value:
                if required:
                    raise self.error(f"the table [{'.'.join(keys)}] is missing")
                value = {}
                break
            value = value[key]
            if not isinstance(value, dict):
                raise self.error(f"{key} is a table [{'.'.join(keys[: at + 1])}], not a value", *keys[: at + 1])
        return Table(self, keys, dict(value))

    def check_tables(self, known: Sequence[str]) -> None:
        """ConfigFileError for a table, or a value outside of one, that nobody reads."""
        for key in self.values:
            if key not in known:
                raise self.error(f"unknown table [{key}]{nearest(key, known)}", key)


class Table:
    """One table: ``take`` gives a value and crosses it off; what is left goes to a class, or is unknown."""

    def __init__(self, config: Config, keys: tuple[str, ...], values: dict[str, Any]) -> None:
        self.config, self.keys, self.values = config, keys, values
        self._taken: list[str] = []

    @property
    def name(self) -> str:
        return ".".join(self.keys)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def error(self, message: str, key: str = "") -> ConfigFileError:
        """An error at a key of the table, or at the table."""
        return self.config.error(message, *self.keys, *([key] if key else []))

    def take(self, key: str, kind: str, default: Any = None, *, required: bool = False) -> Any:
        """The value of ``key``, held against ``kind`` (int, float, bool, str, list or any)."""
        self._taken.append(key)
        if key not in self.values:
            if required:
                raise self.error(f"[{self.name}] needs {key}{nearest_given(key, self.values)}")
            return default
        value = self.values.pop(key)
        self.check(key, value, kind)
        return value

    def check(self, key: str, value: Any, kind: str) -> None:
        """ConfigFileError where ``value`` is not of ``kind``."""
        wanted = {**_KINDS, "list": (list,)}.get(kind)
        if wanted is None or (isinstance(value, wanted) and not (isinstance(value, bool) and kind != "bool")):
            return
        what = {**_WORDS, "list": "a list [..]"}[kind]
        raise self.error(f"{key} in [{self.name}] is {what}, not {_shown(value)}", key)

    def done(self) -> None:
        """ConfigFileError for a key that nobody has taken."""
        for key in self.values:
            raise self._unknown(key, self._taken)

    def call(self, function: Callable[..., Any], *args: Any, given: Iterable[str] = (), **keywords: Any) -> Any:
        """``function(*args, **keywords, **rest of the table)``, keys and kinds checked by its signature first.

        ``given``: arguments that ``args`` fill, and no key can. Errors of the call are told with the table's place.
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

    def _unknown(self, key: str, known: Iterable[str]) -> ConfigFileError:
        names = sorted(set(known))
        return self.error(f"unknown key {key!r} in [{self.name}]{nearest(key, names)}", key)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean ..? known are ..`` for an error message; of long lists the nearest alone."""
    by_text = {key.lower(): key for key in known}
    close = difflib.get_close_matches(name.lower(), list(by_text), 1, 0.6)
    # learning_rate is lr.
    close = close or [key for key in by_text if key == "".join(word[:1] for word in name.lower().split("_"))]
    meant = f"; did you mean {by_text[close[0]]!r}?" if close else ";"
    return meant if close and len(by_text) > 20 else f"{meant} known are {', '.join(by_text.values())}"


def nearest_given(name: str, given: Mapping[str, Any]) -> str:
    """``; is .. meant to be it?`` where a key that was given is close to one that is missing."""
    close = difflib.get_close_matches(name, list(given), 1, 0.6)
    return f"; is {close[0]!r} meant to be it?" if close else ""


def _kind(annotation: Any, value: Any) -> str:
    """The kind that a value has to have for an annotation; "any" where several would do."""
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


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of each table and key. A line within a text or a list of several lines may be taken for a key of its
    own; such keys are asked for by nobody.
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
            for count in range(1, len(table) + 1):
                found.setdefault(table[:count], number)
        elif key:
            rest = [part.strip() for part in key.group(2).split(".") if part.strip()]
            path = (*table, key.group(1).strip("\"'"), *rest)
            for count in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:count], number)
    return found
