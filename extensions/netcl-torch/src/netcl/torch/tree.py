"""The modules of PyTorch as objects: each finds its names in modules of netcl, by the table, at their first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType
from typing import Any

from netcl.torch import placeholders
from netcl.torch.table import ABSENT, FUNCTIONS, PARTS, Part, repeated, rows_of

PAGE = "docs/reference/torch.md"
ROOT = "netcl.torch"

# The names that the program has used, and the missing ones, by PyTorch's full names, in order of first use.
used: dict[str, None] = {}
missing: dict[str, None] = {}


@cache
def public_names() -> dict[str, frozenset[str]]:
    """The public names of PyTorch by module, and those of torch.Tensor, as PyTorch's release had them."""
    return {place: frozenset(names.split()) for place, names in rows_of("names.txt")}


class TorchModule(ModuleType):
    """A module of PyTorch over netcl: a name is looked up at its first use and is an attribute from then on."""

    def __getattr__(self, name: str) -> Any:
        place = _place_of(self.__name__)
        if name == "__all__":  # from torch.utils.data import *
            return [each for each in names_of(place) if not each.startswith("_")]
        try:
            value = find(place, name)
        except AttributeError as error:
            reason = str(error)
        else:
            used[f"{place}.{name}"] = None
            _move_home(value)
            if place in _replaced:
                value = _replaced[place](name, value)
            self.__dict__[name] = value
            return value
        if not name.startswith("__"):
            missing[f"{place}.{name}"] = None
        # `from torch import name` replaces an AttributeError by an ImportError without the reason.
        if _is_from_import(sys._getframe(1)):
            raise ImportError(reason, name=place)
        raise AttributeError(reason, name=name, obj=self)

    def __dir__(self) -> list[str]:
        place = _place_of(self.__name__)
        return sorted({*super().__dir__(), *names_of(place), *placeholders.names_of(place)})


# Class names -> the modules of PyTorch that define them, for a process in which ``import torch`` means netcl.torch.
_homes: dict[str, str] = {}
# Modules of netcl that PyTorch has under other names.
_RENAMED = {
    "netcl.core.process.grad_mode": "torch.autograd.grad_mode",
    "netcl.nn.packed": "torch.nn.utils.rnn",
    "netcl.torch.parts.functional": "torch.nn.functional",
    "netcl.torch.parts.whole_modules": "torch.serialization",
}
_DEFINING = ("torch.nn.modules.", "torch.optim.", "torch.utils.data.", "torch.distributions.")


def move_homes() -> None:
    """Gives classes and functions, now and at their first use, the ``__module__`` of PyTorch's."""
    for place, names in public_names().items():
        if place.startswith(_DEFINING):
            _homes.update((name, place) for name in names if name not in _homes)
    for module in modules().values():
        for value in list(vars(module).values()):
            _move_home(value)


def _move_home(value: Any) -> None:
    if not isinstance(value, (type, FunctionType)) or not value.__module__.startswith("netcl."):
        return
    if isinstance(value, type) and value.__name__ in _homes:
        value.__module__ = _homes[value.__name__]
    elif _homes:
        place = _RENAMED.get(value.__module__, value.__module__.replace("netcl.", "torch.", 1))
        for name in (f"{value.__name__}_", value.__name__):  # netcl.nn.init.eye is eye_, too
            if name in public_names().get(place, ()) and _is_there(place, name) and find(place, name) is value:
                value.__module__, value.__name__, value.__qualname__ = place, name, name
                break


def _is_from_import(frame: FrameType) -> bool:
    import opcode

    code, at = frame.f_code.co_code, frame.f_lasti
    return 0 <= at < len(code) and opcode.opname[code[at]] == "IMPORT_FROM"


def _place_of(module: str) -> str:
    """``netcl.torch.nn`` -> ``torch.nn``."""
    return module.removeprefix("netcl.")


_PLAIN = Part()
_NOTHING = object()


def _part(place: str) -> Part:
    return PARTS.get(place, _PLAIN)


def loaded(path: str) -> Any:
    """The object of a path ``module:name``, or the module of a path without a name."""
    module, _, name = path.partition(":")
    found: Any = import_module(module)
    for one in name.split(".") if name else ():
        found = getattr(found, one)
    return found


def find(place: str, name: str) -> Any:
    """The object of a name in a module of PyTorch; raises AttributeError with what to use instead."""
    child, part = f"{place}.{name}", _part(place)
    known = name in public_names().get(place, ())
    if child in PARTS and child not in FUNCTIONS:
        return sys.modules[f"netcl.{child}"]
    if name in part.names:
        return loaded(part.names[name])
    if name.startswith("__"):
        raise AttributeError(f"module {place!r} has no attribute {name!r}")
    not_installed: ImportError | None = None
    if known or name in _listed(part):
        for source in part.sources:
            try:
                value = _public(import_module(source), name)
            except ImportError as error:
                not_installed = error
                continue
            if value is not _NOTHING:
                return value
    if name in placeholders.names_of(place):
        return placeholders.placeholder(place, name)
    raise AttributeError(str(not_installed) if not_installed else _reason(place, name, known))


def _listed(part: Part) -> set[str]:
    """The names that the sources of a module list in ``TORCH_NAMES``."""
    return {name for source in part.sources for name in getattr(import_module(source), "TORCH_NAMES", ())}


def _public(module: ModuleType, name: str) -> Any:
    """An attribute of a module; _NOTHING if it is a submodule or is not there. Raises ImportError if the attribute
    needs a package that is not installed.
    """
    try:
        value = getattr(module, name)
    except AttributeError:
        return _NOTHING
    return _NOTHING if isinstance(value, ModuleType) else value


def _reason(place: str, name: str, known: bool) -> str:
    short = f"{place}.{name}".removeprefix("torch.")
    reason = loaded("netcl.core.tensor.absent:ABSENT_FUNCTIONS").get(short) or ABSENT.get(place)
    if reason:
        return f"{place}.{name} is not in netcl: {reason}; see {PAGE}"
    child = f"{place}.{name}"
    if child in ABSENT:
        return f"{child} is not in netcl: {ABSENT[child]}; see {PAGE}"
    if child in public_names() or known or place not in public_names():
        return f"{place}.{name} is not in netcl; see {PAGE}"
    return f"module {place!r} has no attribute {name!r}"


def reason_of_module(place: str) -> str:
    """The message for a module of PyTorch that is not there."""
    reason = ABSENT.get(place)
    return f"No module named {place!r} in netcl{f': {reason}' if reason else ''}; see {PAGE}"


def names_of(place: str) -> list[str]:
    """The names that a module of PyTorch has here, without placeholders."""
    part, found = _part(place), {child.rpartition(".")[2] for child in PARTS if child.rpartition(".")[0] == place}
    found.update(part.names)
    known = public_names().get(place, frozenset()) | _listed(part)
    return sorted(found | {name for name in known - found if _is_there(place, name)})


def _is_there(place: str, name: str) -> bool:
    try:
        return not isinstance(find(place, name), placeholders.NotHere)
    except AttributeError:
        return False


_replaced: dict[str, Callable[[str, Any], Any]] = {}


def replace_functions(places: Iterable[str], replaced: Callable[[str, Any], Any]) -> None:
    """Makes ``replaced(name, value)`` the value of each name in modules of PyTorch, also of names at their later first
    use.
    """
    for place in places:
        _replaced[place] = replaced
        module = sys.modules[f"netcl.{place}"]
        for name, value in list(module.__dict__.items()):
            module.__dict__[name] = replaced(name, value)


def build(root: ModuleType) -> None:
    """Makes a module object for each module of the tables, below ``netcl.torch``, which becomes one of them itself."""
    PARTS.update(dict(repeated(public_names())))
    for place in placeholders.PLACEHOLDERS:
        parts = place.split(".")
        for count in range(1, len(parts) + 1):
            PARTS.setdefault(".".join(parts[:count]), Part())
    root.__class__ = TorchModule
    for place, part in PARTS.items():
        if place == "torch":
            continue
        name = f"netcl.{place}"
        kind = loaded(part.kind) if part.kind else TorchModule
        module = kind(name, f"{place} over netcl; see {PAGE}")
        # A package, so that the finder of ``install`` says of a module within it that is not there why not.
        module.__spec__ = ModuleSpec(name, None, origin=root.__file__, is_package=True)
        module.__file__ = root.__file__
        module.__package__ = name
        module.__path__ = []
        sys.modules[name] = module


def modules() -> dict[str, ModuleType]:
    """The modules by PyTorch's names."""
    return {place: sys.modules[f"netcl.{place}"] for place in PARTS}
