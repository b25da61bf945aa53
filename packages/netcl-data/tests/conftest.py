"""Fixtures of netcl.data: datasets that worker processes can import, and a check for leftover resources."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def cases() -> ModuleType:
    """Returns the module worker_cases.py, on sys.path because workers import it by its name."""
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module("worker_cases")


def _segments() -> set[str]:
    """Returns only segments created by this process."""
    return {path.name for path in SHARED_MEMORY.glob(f"netcl-{os.getpid()}-*")}


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails a test that leaves a process or a shared-memory segment behind."""
    yield
    assert multiprocessing.active_children() == []
    assert _segments() == set()


def _assert_equal(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right):
            _assert_equal(one, other)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            _assert_equal(left[key], right[key])
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    else:
        assert left == right


@pytest.fixture(scope="session")
def assert_equal() -> Callable[[Any, Any], None]:
    """Asserts that two batches, or lists of batches, are equal bit for bit."""
    return _assert_equal
