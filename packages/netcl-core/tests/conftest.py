"""Devices of the suite: NumPy, and every OpenCL driver that the tests know how to find."""

from __future__ import annotations

from netcl.core.testing.pytest_plugin import engine as engine
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device
