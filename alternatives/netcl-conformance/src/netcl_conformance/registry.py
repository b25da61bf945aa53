"""The checks by level: functions that raise AssertionError, or any other error, if the core breaks the contract."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from netcl_conformance.report import LevelReport

__all__ = ["CHECKS", "LeftOut", "attempt", "check"]

CHECKS: dict[str, list[Callable[[], None]]] = {}


class LeftOut(Exception):
    """A check that cannot run here; the message says why."""


def check(level: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Registers a function as a check of a level."""

    def decorate(function: Callable[[], None]) -> Callable[[], None]:
        CHECKS.setdefault(level, []).append(function)
        return function

    return decorate


def attempt(report: LevelReport, name: str, function: Callable[[], None]) -> None:
    """Runs a check and enters its outcome."""
    try:
        function()
    except LeftOut as reason:
        report.left_out[name] = str(reason)
    except Exception as error:  # noqa: BLE001 - whatever a foreign core raises is a fault of it
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().split("\n\n")[0].replace("\n", " ")
        report.faults[name] = (
            f"{type(error).__name__}: {text[:300]} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
        )
    else:
        report.held += 1
