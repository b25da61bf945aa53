"""Reads the contract, and compares the names of the installed core with it."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from netcl_conformance.lists.levels import BASIC, LEVELS, level_of
from netcl_conformance.lists.names import CONTRACT, PACKAGES

__all__ = ["DATA", "Contract", "contract", "declared", "fault_of", "resolve", "signature_of"]

DATA = Path(__file__).resolve().parent / "data"


class Contract(NamedTuple):
    """Levels with what is done without them (empty: required), the rows of ops-basic, the subpackages of each
    distribution, names with level and signature.
    """

    levels: dict[str, str]
    basic: frozenset[str]
    packages: dict[str, tuple[str, ...]]
    names: dict[str, tuple[str, str]]

    @property
    def required(self) -> tuple[str, ...]:
        """The levels that the packages above cannot do without."""
        return tuple(level for level, without in self.levels.items() if not without)


@cache
def contract() -> Contract:
    """The contract that this version of the kit checks."""
    levels = {name: level.without for name, level in LEVELS.items()}
    names = {name: (level_of(name), signature) for name, signature in CONTRACT.items()}
    return Contract(levels, frozenset(BASIC), PACKAGES, names)


def declared() -> frozenset[str]:
    """The levels that the installed core declares; raises ImportError if it declares none."""
    try:
        module = importlib.import_module("netcl.core.process.contract")
        levels = frozenset(module.LEVELS)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            "this netcl-core declares no levels: write netcl/core/process/contract.py with LEVELS = frozenset((...)) "
            f"of the levels {', '.join(contract().levels)}"
        ) from error
    if unknown := sorted(levels.difference(contract().levels)):
        raise ImportError(f"netcl.core.process.contract.LEVELS has {', '.join(unknown)}, which is not in the contract")
    return levels


def signature_of(found: Any, member: bool = False) -> inspect.Signature | None:
    """The signature of a callable, of a ``member`` of a class without its first parameter; None if it has none."""
    if not callable(found):
        return None
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    if member and inspect.isfunction(found):
        parameters = parameters[1:]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return inspect.Signature(bare)


def _written(signature: str) -> inspect.Signature | None:
    """A signature of the contract; None for one with a default that is no literal."""
    namespace: dict[str, Any] = {}
    try:
        exec(f"def function{signature}: ...", {}, namespace)
    except (SyntaxError, NameError):
        return None
    return inspect.signature(namespace["function"])


def _accepts(found: inspect.Signature, wanted: inspect.Signature) -> bool:
    """True if every call that ``wanted`` allows is allowed by ``found`` and has the same defaults."""
    have = list(found.parameters.values())
    kinds = {p.kind for p in have}
    positional = [p for p in have if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = {p.name: p for p in have if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    used = set()
    for position, p in enumerate(wanted.parameters.values()):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            if p.kind not in kinds:
                return False
            continue
        mine = named.get(p.name)
        if mine is None:
            if p.VAR_KEYWORD not in kinds or (p.kind is p.POSITIONAL_OR_KEYWORD and p.VAR_POSITIONAL not in kinds):
                return False
            continue
        used.add(p.name)
        if p.kind is not p.KEYWORD_ONLY and (position >= len(positional) or positional[position] is not mine):
            return False
        if repr(mine.default) != repr(p.default):
            return False
    rest = (p for p in have if p.name not in used and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return all(p.default is not p.empty for p in rest)


def resolve(name: str) -> Any:
    """The object with a dotted name; raises AttributeError if there is none. A field without default is its
    annotation, or its name if it has none.
    """
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for end, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            if isinstance(found, type):
                if not _is_field(found, part):
                    raise AttributeError(f"there is no {'.'.join(parts[:end])}")
                return part
            try:
                found = importlib.import_module(".".join(parts[:end]))
                continue
            except ModuleNotFoundError:
                raise AttributeError(f"there is no {'.'.join(parts[:end])}") from None
        found = getattr(found, part)
    return found


def _is_field(found: type, part: str) -> bool:
    """True if instances have the attribute ``part``: annotated, in slots, or a parameter that ``__init__`` keeps."""
    for one in found.__mro__:
        if part in one.__dict__.get("__annotations__", {}):
            return True
    try:
        return part in inspect.signature(found).parameters
    except (TypeError, ValueError):
        return False


def fault_of(name: str, signature: str) -> str:
    """Describes the fault of a name of the contract in this core; empty if there is none."""
    place, _, _ = name.rpartition(".")
    try:
        owner = resolve(place)
        found = signature_of(resolve(name), member=isinstance(owner, type))
    except (AttributeError, ImportError) as error:
        return f"is missing ({error})"
    if not signature:
        return ""
    wanted = _written(signature)
    if found is None:
        return f"takes no arguments, not {signature}"
    if str(found) == signature or wanted is None or _accepts(found, wanted):
        return ""
    return f"takes {found}, not {signature}"
