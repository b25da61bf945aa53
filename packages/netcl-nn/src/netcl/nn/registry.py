"""Registry of module classes, and the conversion of modules to and from plain values, for model files."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core.errors import NetclError
from netcl.nn import reparameterize
from netcl.nn.container import Concat, ModuleDict, ModuleList, Sequential
from netcl.nn.module import Module

ToConfig = Callable[[Any], Mapping[str, Any]]


class UnknownModuleError(NetclError, LookupError):
    """A class is not registered, so it cannot be saved or rebuilt."""


@dataclass(frozen=True)
class _Entry:
    cls: type[Module]
    to_config: ToConfig


_entries: dict[str, _Entry] = {}
_lock = threading.RLock()


def register(cls: type[Module] | None = None, to_config: ToConfig | None = None) -> Any:
    """Makes a Module class savable and loadable by its name; also as decorator, ``@register`` or
    ``@register(to_config=...)``.

    ``to_config(module)`` returns the keyword arguments that build an equal module: None, numbers, texts, modules,
    registered classes, and lists, tuples and dicts of those; under ``"*"`` a list of positional arguments. The default
    reads each argument of ``__init__`` from the attribute of the same name. Raises ValueError if another class has the
    name.
    """
    if cls is None:
        return lambda decorated: register(decorated, to_config)
    if not (isinstance(cls, type) and issubclass(cls, Module)):
        raise TypeError(f"register: expected a subclass of Module, got {cls!r}")
    with _lock:
        old = _entries.get(cls.__name__)
        if old is not None and (old.cls.__module__, old.cls.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"the name {cls.__name__} belongs to {old.cls.__module__}.{old.cls.__qualname__} already")
        _entries[cls.__name__] = _Entry(cls, to_config or _arguments)
    return cls


def _arguments(module: Module) -> dict[str, Any]:
    """Returns the arguments of ``__init__`` from the attributes of the same names."""
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(module).__init__).parameters.items():
        if name in ("self", "device", "dtype"):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or not hasattr(module, name):
            raise UnknownModuleError(
                f"{type(module).__name__} has no attribute for its argument {name!r}; keep the argument "
                "under its name, or register the class with to_config="
            )
        value = getattr(module, name)
        # The argument for an optional parameter is a bool: Linear(4, 2, bias=False).
        optional = isinstance(parameter.default, bool) and (value is None or isinstance(value, ag.Parameter))
        arguments[name] = value is not None if optional else value
    return arguments


def _layers(module: Module) -> dict[str, Any]:
    numbered = list(module._modules) == [str(at) for at in range(len(module._modules))]
    return {"*": list(module._modules.values()) if numbered else [dict(module._modules)]}


# -- modules to plain values
# -----------------------------------------------------------------------------------------------


def to_config(module: Module) -> dict[str, Any]:
    """Returns the module as JSON-compatible values: ``{"type": name, "arguments": {...}}``, inner modules likewise.

    A module that occurs twice is written once. Raises UnknownModuleError for a class that is not registered.
    """
    return _encode_module(module, {})


def _encode_module(module: Module, seen: dict[int, int]) -> dict[str, Any]:
    if id(module) in seen:
        return {"shared": seen[id(module)]}
    seen[id(module)] = len(seen)
    entry = _entry_of(type(module))
    config: dict[str, Any] = {"type": type(module).__name__, "origin": type(module).__module__}
    config["arguments"] = {name: _encode(value, seen) for name, value in entry.to_config(module).items()}
    if normalised := reparameterize.configs(module):
        config["normalised"] = normalised
    return config


def _entry_of(cls: type) -> _Entry:
    entry = _entries.get(cls.__name__)
    if entry is None or entry.cls is not cls:
        raise UnknownModuleError(
            f"the class {cls.__module__}.{cls.__qualname__} is not registered; decorate it with netcl.nn.register"
        )
    return entry


def _encode(value: Any, seen: dict[int, int]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Module):
        return {"module": _encode_module(value, seen)}
    if isinstance(value, type) and issubclass(value, Module):
        _entry_of(value)
        return {"class": value.__name__}
    if isinstance(value, list):
        return [_encode(item, seen) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, seen) for item in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(item, seen) for key, item in value.items()}}
    if isinstance(value, np.generic):
        return value.item()
    raise UnknownModuleError(
        f"a {type(value).__name__} is no plain value; give register a to_config= that leaves it out or rewrites it"
    )


# -- plain values to modules
# -----------------------------------------------------------------------------------------------


def from_config(config: Mapping[str, Any]) -> Module:
    """Builds the module that ``to_config`` described, with new parameters. Raises UnknownModuleError for an unknown
    class, ValueError for malformed values.
    """
    return _decode_module(config, [])


def _decode_module(config: Any, seen: list[Module | None]) -> Module:
    if not isinstance(config, Mapping):
        raise ValueError(f"expected a mapping as config of a module, got {type(config).__name__}")
    if "shared" in config:
        at = config["shared"]
        module = seen[at] if isinstance(at, int) and 0 <= at < len(seen) else None
        if module is None:
            raise ValueError(f"the config shares module {at!r}, which does not come before it")
        return module
    name, arguments = config.get("type"), config.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ValueError("the config of a module has a type and arguments")
    entry = _entries.get(name)
    if entry is None:
        raise UnknownModuleError(
            f"the class {name!r} is not registered; import the module that registers it "
            f"({config.get('origin', 'unknown')})"
        )
    at = len(seen)
    seen.append(None)
    values = {key: _decode(value, seen) for key, value in arguments.items()}
    _check_numbers(entry.cls, values)
    module = entry.cls(*values.pop("*", ()), **values)
    seen[at] = module
    for settings in config.get("normalised", ()):
        reparameterize.reapply(module, settings)
    return module


@lru_cache(maxsize=1024)
def _numbers_of(cls: Any) -> tuple[list[str], set[str]]:
    """Returns the positional parameters of a constructor, and all parameters that are annotated as numbers alone."""
    parameters = inspect.signature(cls).parameters.values()
    single = [
        parameter for parameter in parameters if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    kinds = {parameter.name: {kind.strip() for kind in str(parameter.annotation).split("|")} for parameter in single}
    numbers = {name for name, allowed in kinds.items() if allowed <= {"int", "float", "bool", "None"}}
    return [parameter.name for parameter in single if parameter.kind != parameter.KEYWORD_ONLY], numbers


def _check_numbers(cls: Any, values: Mapping[str, Any]) -> None:
    """Raises ValueError for a list or a text in place of a number: a constructor may multiply it by another number, and
    so make billions of its items.
    """
    positional, numbers = _numbers_of(cls)
    for name, value in (*zip(positional, values.get("*", ())), *values.items()):
        if name in numbers and value is not None and not isinstance(value, (bool, int, float)):
            raise ValueError(f"{cls.__name__}: expected a number as {name}, got {type(value).__name__}")


def _decode(value: Any, seen: list[Module | None]) -> Any:
    if isinstance(value, list):
        return [_decode(item, seen) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"module"}:
        return _decode_module(value["module"], seen)
    if set(value) == {"class"}:
        if value["class"] not in _entries:
            raise UnknownModuleError(
                f"the class {value['class']!r} is not registered; import the module that registers it"
            )
        return _entries[value["class"]].cls
    if set(value) == {"tuple"}:
        return tuple(_decode(item, seen) for item in value["tuple"])
    if set(value) == {"dict"}:
        return {key: _decode(item, seen) for key, item in value["dict"].items()}
    raise ValueError(f"a config has no meaning for {sorted(value)}")


def build_sequential(config: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Sequential:
    """Builds a Sequential from its config, or from a list of configs of its layers:
    ``[{"type": "Linear", "arguments": {...}}, ...]``.
    """
    if isinstance(config, Mapping):
        module = _decode_module(config, [])
        if not isinstance(module, Sequential):
            raise ValueError(f"expected the config of a Sequential, got that of a {type(module).__name__}")
        return module
    seen: list[Module | None] = []
    return Sequential(*(_decode_module(layer, seen) for layer in config))


register(Sequential, _layers)
register(ModuleList, lambda module: {"modules": list(module)})
register(ModuleDict, lambda module: {"modules": dict(module.items())})
register(Concat, lambda module: {"*": list(module), "axis": module.axis})
