"""Devices of the suite: NumPy, and every OpenCL driver that the tests know how to find."""

from __future__ import annotations

from typing import Any

import pytest

from netcl.core.backend.opencl import templates
from netcl.core.testing.pytest_plugin import default_signals as default_signals
from netcl.core.testing.pytest_plugin import engine as engine
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device


@pytest.fixture
def most_lanes(engine: Any) -> int:
    """Returns the lanes that a text of a test may have: the kernels' own if a driver fails on its processor's vectors,
    else sixteen.
    """
    if engine.name != "cl":
        return 16
    lanes = templates.traits(engine).vector
    return lanes if engine.queue.device.native_vector_width_float > lanes else 16
