"""A pytest plugin that raises when a package above netcl-core reaches a name or a field outside of the contract.

``pytest -p netcl_conformance.facade`` imports every module of netcl-core, checks that each name of its levels is
there, and then watches four doors: imports of core's modules, attributes of core's modules, attributes of Tensor, and
fields of the classes whose fields the contract lists. Only code whose module belongs to an upper package is held to
the contract; tests may look wherever they need to.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from netcl_conformance.contract import contract, declared, fault_of, resolve
from netcl_conformance.stand_in import install

CORE = tuple(f"netcl.{sub}" for sub in contract().packages["netcl-core"])
# netcl.torch has PyTorch's names over those of users, so it is a user of the front, as a program is.
UPPER = tuple(
    f"netcl.{sub}"
    for name, subs in contract().packages.items()
    if name != "netcl-core"
    for sub in subs
    if sub != "torch"
)
OPENCL = ("netcl.core.backend.opencl",)
BACKEND = "netcl.core.engine.protocol.DeviceBackend"

violations: list[str] = []
files_left_out: list[str] = []


class ContractError(Exception):
    """An upper package reached past the contract; no AttributeError, so that `hasattr` cannot hide it."""


@cache  # asked at each access to a tensor's field
def _belongs(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _caller(depth: int) -> str:
    return str(sys._getframe(depth + 1).f_globals.get("__name__", ""))


class Facade:
    """The contract names with their parents, and the guards that hold upper packages to them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.contract = names
        self.names = {".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2)}

    def refuse(self, name: str, caller: str) -> None:
        violations.append(f"{caller} reaches {name}, which is not in the contract (docs/reference/core-contract.md)")
        raise ContractError(violations[-1])

    def guard_modules(self) -> None:
        facade = self

        class Guarded(ModuleType):
            def __getattribute__(self, name: str) -> Any:
                # Asking for a name that is not there is no reach: AttributeError, as without the facade.
                value = ModuleType.__getattribute__(self, name)
                if not name.startswith("__") and _belongs(caller := _caller(1), UPPER):
                    full = f"{ModuleType.__getattribute__(self, '__name__')}.{name}"
                    if full not in facade.names:
                        facade.refuse(full, caller)
                return value

        for name, module in list(sys.modules.items()):
            if _belongs(name, CORE):
                module.__class__ = Guarded

    def guard_imports(self) -> None:
        facade, plain_import, plain_import_module = self, builtins.__import__, importlib.import_module

        def check(name: str, caller: str) -> None:
            if _belongs(caller, UPPER) and _belongs(name, CORE) and name not in facade.names:
                facade.refuse(name, caller)

        def guarded_import(name: str, *args: Any, **keywords: Any) -> Any:
            check(name, _caller(1))
            return plain_import(name, *args, **keywords)

        def guarded_import_module(name: str, package: str | None = None) -> ModuleType:
            check(name, _caller(1))
            return plain_import_module(name, package)

        builtins.__import__ = guarded_import
        importlib.import_module = guarded_import_module

    def guard_tensor(self) -> None:
        from netcl.core import Tensor

        spelled = tuple(f"{path}.{Tensor.__qualname__}." for path in ("netcl.core", Tensor.__module__))
        known = {*dir(Tensor), *getattr(Tensor, "__annotations__", ()), *getattr(Tensor, "__slots__", ())}
        public = {name for name in known if any(prefix + name in self.names for prefix in spelled)}
        closed = {name for name in known - public if not name.startswith("__")}
        facade, plain = self, Tensor.__getattribute__

        def guarded(tensor: Any, name: str) -> Any:
            if name in closed and _belongs(caller := _caller(1), UPPER):
                facade.refuse(f"Tensor.{name}", caller)
            return plain(tensor, name)

        Tensor.__getattribute__ = guarded  # type: ignore[method-assign,assignment]

    def _classes(self) -> Iterator[tuple[type, set[str]]]:
        """The classes whose fields the contract lists, with these fields; Tensor has a guard of its own."""
        listed: dict[str, set[str]] = {}
        for name in self.contract:
            place, _, field = name.rpartition(".")
            listed.setdefault(place, set()).add(field)
        found: dict[type, set[str]] = {}
        for place, fields in listed.items():
            try:
                value = resolve(place)
            except (AttributeError, ImportError):  # a name of a level that this core does not keep
                continue
            if isinstance(value, ModuleType) or place.endswith(".Tensor"):
                continue
            kinds = [value if isinstance(value, type) else type(value)]
            if place == BACKEND:  # a protocol: its classes are those with the same methods
                kinds = [kind for kind in _classes_of_core() if {"empty", "fill", "flag_code"} <= set(dir(kind))]
            for kind in kinds:
                found.setdefault(kind, set()).update(fields)
        yield from found.items()

    def guard_fields(self) -> None:
        for kind, fields in list(self._classes()):
            self._guard_class(kind, fields)

    def _guard_class(self, kind: type, fields: set[str]) -> None:
        known = {*dir(kind), *(name for one in kind.__mro__ for name in getattr(one, "__annotations__", ()))}
        known.update(name for one in kind.__mro__ for name in getattr(one, "__slots__", ()))
        closed = {name for name in known - fields if not name.startswith("__")}
        facade, plain = self, kind.__getattribute__

        def guarded(value: Any, name: str) -> Any:
            # A subclass that lists further fields, as Fused those of Program, has a guard of its own.
            if name in closed and type(value) is kind and _belongs(caller := _caller(1), UPPER):
                facade.refuse(f"{kind.__qualname__}.{name}", caller)
            return plain(value, name)

        kind.__getattribute__ = guarded  # type: ignore[method-assign,assignment]


def _classes_of_core() -> list[type]:
    modules = [module for name, module in sys.modules.items() if _belongs(name, CORE)]
    values = [value for module in modules for value in list(vars(module).values())]
    return list({v for v in values if isinstance(v, type) and _belongs(v.__module__, CORE)})


def _import_core() -> None:
    """Import every module of netcl-core, except commands, the fixtures of suites, and modules that need OpenCL files
    which this core does not have.
    """
    for package in CORE:
        try:
            folder = importlib.import_module(package).__path__
        except (ModuleNotFoundError, AttributeError):  # a package of a level that this core does not keep, or a module
            continue
        for module in pkgutil.walk_packages(folder, f"{package}."):
            if not module.name.endswith(("__main__", "pytest_plugin")):
                try:
                    importlib.import_module(module.name)
                except ModuleNotFoundError as error:
                    if not _belongs(error.name or "", OPENCL):
                        raise


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Set the guards before a conftest.py imports an upper package."""
    early = sorted(name for name in sys.modules if _belongs(name, UPPER))
    if early:
        raise pytest.UsageError(f"the facade comes too late: {', '.join(early)} imported before it")
    install()
    _import_core()
    levels = declared()
    wanted = {name: signature for name, (level, signature) in contract().names.items() if level in levels}
    broken = [f"{name} {fault}" for name, signature in wanted.items() if (fault := fault_of(name, signature))]
    if broken:
        raise pytest.UsageError("this netcl-core breaks its contract:\n" + "\n".join(broken))
    # A level that the core does not declare is closed to the packages above, even if its names are there.
    facade = Facade(tuple(wanted))
    facade.guard_tensor()
    facade.guard_fields()
    facade.guard_imports()
    facade.guard_modules()


def pytest_configure(config: pytest.Config) -> None:
    """A package says once that it does without a level, in whichever test comes first: that fails no test."""
    config.addinivalue_line("filterwarnings", "ignore:this netcl-core has no level:UserWarning")


def _levels_of(path: Path) -> list[str]:
    """The levels that a test file needs as a whole: ``pytestmark = pytest.mark.level("tracing")``, read as text, since
    the file may import what the core does not have.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
            marks = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "level"]
            return [arg.value for one in marks for arg in one.args if isinstance(arg, ast.Constant)]
    return []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out files that need a level that the core does not declare."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    absent = [level for level in _levels_of(collection_path) if level not in declared()]
    if absent:
        files_left_out.append(f"{collection_path.name}: needs the level {', '.join(absent)}")
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need a level that the core does not declare."""
    for item in items:
        for mark in item.iter_markers("level"):
            if absent := [level for level in mark.args if level not in declared()]:
                item.add_marker(pytest.mark.skip(reason=f"needs the level {', '.join(absent)}"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A violation that some `except` swallowed still fails the run."""
    if violations and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in dict.fromkeys(violations):
        terminalreporter.write_line(f"contract: {line}", red=True)
    for line in files_left_out:
        terminalreporter.write_line(f"left out: {line}")
