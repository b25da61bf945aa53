"""Stops every pytest run in this repository when two installed distributions own one netcl file; lets Ctrl-C in."""

from __future__ import annotations

import runpy
import signal
from pathlib import Path

import pytest

DISTRIBUTION_CHECK = Path(__file__).parent / "packages/netcl-core/src/netcl/core/testing/distribution_check.py"


# A shell has what it starts in the background ignore Ctrl-C, which tests of interrupts then would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    # By path: importing netcl.core here would hide an import that netcl.data must not make.
    conflicts = runpy.run_path(str(DISTRIBUTION_CHECK))["find_conflicts"]()
    if conflicts:
        raise pytest.UsageError("\n".join(conflicts))
