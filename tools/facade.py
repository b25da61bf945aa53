"""A pytest plugin that raises when a package above netcl-core reaches a name outside `netcl.core.testing.CONTRACT`.

`pytest -p facade` imports every module of netcl-core, checks that each contract name is there, and then watches three
doors: imports of core's modules, attributes of core's modules, and attributes of Tensor. Only code whose module belongs
to an upper package is held to the contract; tests may look wherever they need to.
"""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Any

import pytest
from monorepo import OWNED

CORE = tuple(f"netcl.{sub}" for sub in OWNED["netcl-core"])
# netcl.torch has PyTorch's names over those of users, so it is a user of the front, as a program is.
UPPER = tuple(f"netcl.{sub}" for name, subs in OWNED.items() if name != "netcl-core" for sub in subs if sub != "torch")
OPENCL = ("netcl.core.backend.opencl",)

violations: list[str] = []


class ContractError(Exception):
    """An upper package reached past the contract; no AttributeError, so that `hasattr` cannot hide it."""


def _belongs(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _caller(depth: int) -> str:
    return str(sys._getframe(depth + 1).f_globals.get("__name__", ""))


class Facade:
    """The contract names with their parents, and the guards that hold upper packages to them."""

    def __init__(self, contract: dict[str, str]) -> None:
        self.names = {".".join(name.split(".")[:end]) for name in contract for end in range(1, name.count(".") + 2)}

    def refuse(self, name: str, caller: str) -> None:
        violations.append(f"{caller} reaches {name}, which is not in netcl.core.testing.CONTRACT")
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


def _import_core() -> None:
    """Import every module of netcl-core, except commands, the fixtures of suites, and modules that need OpenCL files
    which this core does not have.
    """
    for package in CORE:
        folder = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folder, f"{package}."):
            if not module.name.endswith(("__main__", "pytest_plugin")):
                try:
                    importlib.import_module(module.name)
                except ModuleNotFoundError as error:
                    if not _belongs(error.name or "", OPENCL):
                        raise


def _broken(name: str, signature: str) -> str:
    """Describes the fault of a contract name of this core; empty if there is none."""
    from netcl.core.testing import signature_of
    from netcl.core.testing.conformance import resolve

    try:
        found = signature_of(resolve(name))
    except AttributeError:
        return f"{name} is missing"
    return f"{name} takes {found}, not {signature}" if signature and found != signature else ""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Set the guards before a conftest.py imports an upper package."""
    early = sorted(name for name in sys.modules if _belongs(name, UPPER))
    if early:
        raise pytest.UsageError(f"the facade comes too late: {', '.join(early)} imported before it")
    _import_core()
    from netcl.core.testing import CONTRACT

    broken = [fault for name, signature in CONTRACT.items() if (fault := _broken(name, signature))]
    if broken:
        raise pytest.UsageError("this netcl-core breaks its CONTRACT:\n" + "\n".join(broken))
    facade = Facade(dict(CONTRACT))
    facade.guard_tensor()
    facade.guard_imports()
    facade.guard_modules()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A violation that some `except` swallowed still fails the run."""
    if violations and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in dict.fromkeys(violations):
        terminalreporter.write_line(f"contract: {line}", red=True)
