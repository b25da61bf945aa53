"""Collects the public names of the distributions as entries: one object or op row, with every name that it has."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from monorepo import OWNED, OWNER
from public_api import MODULES, names_of

# Modules that users import, in addition to tools/public_api.py's and the public modules named there.
FURTHER = {"netcl-core": ("netcl.core.memory", "netcl.core.testing"), "netcl-trainer": ("netcl.trainer.cli",)}
_LEAVE_OUT = ("netcl.torch",)  # PyTorch's names: docs/reference/torch.md


@dataclass
class Entry:
    """One object of the reference: a function, class, value or module, its names and the module that defines it."""

    value: Any
    origin: str
    distribution: str
    names: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Returns module, class, exception, function or data."""
        if isinstance(self.value, ModuleType):
            return "module"
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if callable(self.value) else "data"

    @property
    def row(self) -> Any:
        """Returns the row of the op table that the function calls, else None."""
        return getattr(self.value, "row", None) if inspect.isfunction(self.value) else None

    @property
    def name(self) -> str:
        """Returns the name under which the entry is listed: the shortest, of netcl's front if it is there."""
        return self.names[0]


def modules() -> dict[str, list[str]]:
    """Returns the public modules of each distribution: the ones in checks/public_api, and the modules they list."""
    by_distribution: dict[str, list[str]] = {}
    for distribution, listed_in in MODULES.items():
        listed = [*listed_in, *FURTHER.get(distribution, ())]
        for name in listed_in:
            module = importlib.import_module(name)
            for public in names_of(module):
                value = getattr(module, public)
                if isinstance(value, ModuleType) and owner_of(value.__name__) == distribution:
                    listed.append(value.__name__)
        by_distribution[distribution] = [name for name in dict.fromkeys(listed) if name not in _LEAVE_OUT]
    return by_distribution


def owner_of(module: str) -> str:
    """Returns the distribution that owns a module such as netcl.nn.conv; netcl-core for others."""
    parts = module.split(".")
    return OWNER.get(parts[1], next(iter(OWNED))) if len(parts) > 1 and parts[0] == "netcl" else next(iter(OWNED))


def public_names(module: ModuleType) -> list[str]:
    """Returns the public names of a module; without ``__all__`` they include functions of netcl."""
    names = names_of(module)
    if not hasattr(module, "__all__") and module.__name__ == "netcl.nn.functional":
        names += [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and inspect.isfunction(value) and value.__module__.startswith("netcl.")
        ]
    return sorted(set(names))


def origin_of(value: Any, module: str) -> str:
    """Returns the module that defines an object; of an op, the module of its row's function."""
    row = getattr(value, "row", None) if inspect.isfunction(value) else None
    if row is not None:
        own = row.composite or row.call or row.expression
        return str(getattr(own, "__module__", "netcl.ops.elementwise"))
    if isinstance(value, ModuleType):
        return value.__name__
    own = getattr(value, "__module__", None) or type(value).__module__
    return str(own) if str(own).startswith("netcl.") else module


def entries() -> list[Entry]:
    """Returns every public object once, each with all of its public names, shortest module first."""
    known: dict[Any, Entry] = {}
    for listed in modules().values():
        for module_name in listed:
            module = importlib.import_module(module_name)
            for name in public_names(module):
                value = getattr(module, name)
                if isinstance(value, ModuleType) and value.__name__ in _LEAVE_OUT:
                    continue
                row = getattr(value, "row", None) if inspect.isfunction(value) else None
                shared = isinstance(value, (bool, int, float, str, type(None)))  # equal numbers are not one object
                key = ("row", row.name) if row is not None else (module_name, name) if shared else id(value)
                if key not in known:
                    origin = origin_of(value, module_name)
                    known[key] = Entry(value, origin, owner_of(origin))
                full = value.__name__ if isinstance(value, ModuleType) else f"{module_name}.{name}"
                if full not in known[key].names:
                    known[key].names.append(full)
    return list(known.values())


def every_name() -> Iterator[str]:
    """Yields each public name in full, such as netcl.ops.softmax."""
    for listed in modules().values():
        for module_name in listed:
            module = importlib.import_module(module_name)
            for name in public_names(module):
                value = getattr(module, name)
                if not isinstance(value, ModuleType):
                    yield f"{module_name}.{name}"
                elif value.__name__ not in _LEAVE_OUT:
                    yield value.__name__
