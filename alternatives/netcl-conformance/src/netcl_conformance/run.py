"""Runs the checks of levels on the installed core."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from netcl_conformance import contract as names
from netcl_conformance.registry import CHECKS, attempt
from netcl_conformance.report import LevelReport, Report
from netcl_conformance.values import gradient_of, names_of_level, values_of

__all__ = ["check"]


def _core() -> str:
    try:
        return f"netcl-core {version('netcl-core')}"
    except PackageNotFoundError:
        return "netcl-core (not installed as a distribution)"


def _check_names(report: LevelReport, level: str) -> None:
    for name, (of, signature) in names.contract().names.items():
        if of == level:
            if fault := names.fault_of(name, signature):
                report.faults[name] = fault
            else:
                report.held += 1


def _check_values(report: LevelReport, level: str) -> None:
    if level in ("ops-basic", "ops-full"):
        for name in names_of_level(level):
            attempt(report, f"values of {name}", lambda name=name: values_of(name))  # type: ignore[misc]
    if level == "gradient":
        for name in (*names_of_level("ops-basic"), *names_of_level("ops-full")):
            attempt(report, f"gradient of {name}", lambda name=name: gradient_of(name))  # type: ignore[misc]


def _import_checks(level: str) -> None:
    importlib.import_module(f"netcl_conformance.checks.{level.replace('-', '_')}")


def check(levels: Iterable[str] | None = None, device: str | None = None) -> Report:
    """Checks ``levels`` of the installed core, by default those it declares and those that are required, on
    ``device``, a selector, by default the active device.
    """
    known = names.contract().levels
    declared = names.declared()
    wanted = tuple(levels or [name for name in known if name in declared or name in names.contract().required])
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"there is no level {', '.join(unknown)}; there are {', '.join(known)}")
    devices = importlib.import_module("netcl.core.device")
    if device is not None:
        devices.set_default_device(device)
    place = devices.get_active_device()
    report = Report(_core(), str(getattr(place, "device_name", place)), [name for name in known if name in declared])
    for level in wanted:
        found = report.levels[level] = LevelReport()
        if level not in declared:
            found.faults[level] = "netcl.core.process.contract.LEVELS does not declare this level"
            continue
        _check_names(found, level)
        if level != "ops-full":  # which has values only; the modules import names of their level
            attempt(found, f"imports of {level}", lambda level=level: _import_checks(level))  # type: ignore[misc]
        for function in CHECKS.get(level, ()):
            attempt(found, function.__name__.replace("_", " "), function)
        _check_values(found, level)
    return report
