"""Stops every pytest run in this repository when two installed distributions own one netcl file, and keeps collections
of garbage short.
"""

from __future__ import annotations

import gc
import runpy
from pathlib import Path

import pytest

DISTRIBUTION_CHECK = Path(__file__).parent / "packages/netcl-core/src/netcl/core/testing/distribution_check.py"


def pytest_configure(config: pytest.Config) -> None:
    # By path: importing netcl.core here would hide an import that netcl.data must not make.
    conflicts = runpy.run_path(str(DISTRIBUTION_CHECK))["find_conflicts"]()
    if conflicts:
        raise pytest.UsageError("\n".join(conflicts))


def pytest_collection_finish() -> None:
    # Thousands of collected tests are walked over by each full collection, also by the gc.collect() of a test.
    gc.collect()
    gc.freeze()
