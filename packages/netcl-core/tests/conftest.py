"""Devices of the suite: NumPy, and every OpenCL driver that the tests know how to find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netcl.core.testing.pytest_plugin import engine as engine
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.tuning import selector


@pytest.fixture(autouse=True)
def forgotten_failures() -> Iterator[None]:
    """Selectors, which devices of one profile share, forget after each test which kernels failed to build in it."""
    yield
    for chooser in selector._selectors.values():
        if chooser._plain:
            chooser._plain.clear()
            chooser.clear_cache()
