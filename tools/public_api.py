"""Writes the public names of the installed packages as stubs to checks/public_api, or compares them with those there.

The stubs are the API of the last release. `--write` renews them; without it griffe looks for changes that break
callers: these need a version of another series (0.1 to 0.2).
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
from monorepo import ADDED, OWNED, ROOT, load_packages

BASELINE = ROOT / "checks" / "public_api"
# The front, the subpackages, and modules that users import; `nox -s docs` documents the same.
MODULES = {
    name: [
        *(["netcl"] if name == "netcl-core" else []),
        *(f"netcl.{sub}" for sub in subs if sub != "torch"),  # netcl.torch has PyTorch's names: docs/reference/torch.md
        *(["netcl.core.errors", "netcl.ops.table", "netcl.core.kernels.primitives"] if name == "netcl-core" else []),
        *(["netcl.distributed.optim"] if name == "netcl-distributed" else []),
        *(
            f"netcl.{file.removesuffix('.py').replace('/', '.')}"
            for file in ADDED.get(name, ())
            if not file.startswith("_")
        ),
    ]
    for name, subs in OWNED.items()
}
# Written where they differ from a base's.
_SPECIAL = ("__init__", "__call__", "__getitem__", "__setitem__", "__len__", "__iter__", "__enter__", "__exit__")


def names_of(module: ModuleType) -> list[str]:
    """Returns the public names of a module: its ``__all__``, else what it defines without an underscore."""
    listed = getattr(module, "__all__", None)
    if listed is None and module.__name__ == "netcl":
        listed = [name for name in dir(module) if not name.startswith("_")]
    if listed is None:
        own = {name: getattr(value, "__module__", None) for name, value in vars(module).items()}
        listed = [name for name, origin in own.items() if origin == module.__name__ and not name.startswith("_")]
    return sorted(set(listed) - {"__version__", "annotations", "TYPE_CHECKING", "Any"})


def stub(name: str) -> str:
    """Returns the public names of a module as Python declarations without types."""
    module = importlib.import_module(name)
    lines: list[str] = []
    for public in names_of(module):
        if public.isidentifier() and not isinstance(value := getattr(module, public), ModuleType):
            lines += _declared(public, value)
    return "\n".join(lines) + "\n"


def _declared(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        line = [base for base in value.__mro__ if base.__module__.startswith("netcl.")]
        known = next((index for index, base in enumerate(line) if index and _is_public(base)), len(line))
        members = {member for base in line[:known] for member in vars(base)}
        yield f"class {name}({line[known].__name__}):" if known < len(line) else f"class {name}:"
        body = [text for member in sorted(members) for text in _member(value, member)]
        yield from body or ["    ..."]
    elif callable(value):
        yield f"def {name}({_parameters(value)}): ..."
    else:
        yield f"{name} = ..."


def _is_public(value: type) -> bool:
    """True if a subpackage lists the class, so that its members are written with it."""
    module = sys.modules.get(".".join(value.__module__.split(".")[:2]))
    return getattr(module, value.__name__, None) is value


def _member(owner: type, name: str) -> Iterator[str]:
    if name.startswith("_") and name not in _SPECIAL:
        return
    value = inspect.getattr_static(owner, name)
    plain = getattr(owner, name, value)
    if isinstance(value, (staticmethod, classmethod)):
        yield f"    @{type(value).__name__}"
        yield f"    def {name}({'cls, ' * isinstance(value, classmethod)}{_parameters(plain)}): ..."
    elif inspect.isfunction(value):
        yield f"    def {name}({_parameters(value)}): ..."
    elif name not in _SPECIAL:
        yield f"    {name} = ..."


def _parameters(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "*args, **kwargs"
    bare = [
        parameter.replace(
            annotation=parameter.empty,
            default=parameter.default if parameter.default is parameter.empty else _Default(parameter.default),
        )
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))[1:-1]


class _Default:
    """A default that prints as a literal, or as ... if it is an object."""

    def __init__(self, value: Any) -> None:
        simple = (
            value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and abs(value) < 1e300)
        )
        flat = isinstance(value, tuple) and all(isinstance(item, (bool, int, float, str)) for item in value)
        self.text = repr(value) if simple or flat else "..."

    def __repr__(self) -> str:
        return self.text


def file_of(module: str) -> Path:
    """Returns the file of a module's stubs."""
    return BASELINE / f"{module}.pyi"


def series(version: str) -> tuple[str, ...]:
    """Returns the part of a version that changes with a break: 0.1 of 0.1.3, 1 of 1.2.3."""
    major, minor = version.split(".")[:2]
    return (major, minor) if major == "0" else (major,)


def breaks(module: str, old: str, new: str) -> list[str]:
    """Returns the changes from one text of stubs to another that break a caller, a line each."""
    trees = [griffe.visit(module, Path(f"{module}.pyi"), text) for text in (old, new)]
    logging.getLogger("griffe").setLevel(logging.ERROR)
    return [_line(breakage) for breakage in griffe.find_breaking_changes(*trees)]


def _line(change_of: Any) -> str:
    old, new = change_of.old_value, change_of.new_value
    names = [getattr(value, "name", value) for value in (old, new)]
    change = "" if names == [None, None] or names[0] == names[1] else f" ({names[0]} -> {names[1]})"
    return f"{change_of.obj.path}: {change_of.kind.value}{change}"


def compare() -> list[str]:
    """Returns the faults: breaks of a package with a version in the series of the stubs."""
    faults = []
    for name, package in load_packages().items():
        for module in MODULES[name]:
            text = file_of(module).read_text(encoding="utf-8")
            released = re.search(r"^# netcl-\w+ (\S+)$", text, re.MULTILINE)
            if released is None:
                faults.append(f"{file_of(module)} has no line # {name} <version>")
            elif series(released[1]) == series(package.version):
                breakages = breaks(module, text, stub(module))
                faults += [f"{name} {package.version} breaks {released[1]}: {line}" for line in breakages]
    return faults


def write() -> None:
    """Writes the stubs of all modules as they are now."""
    BASELINE.mkdir(parents=True, exist_ok=True)
    for name, package in load_packages().items():
        for module in MODULES[name]:
            file_of(module).write_text(f"# {name} {package.version}\n{stub(module)}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew checks/public_api, at a release")
    if parser.parse_args().write:
        write()
        return 0
    faults = compare()
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
