"""The device of the suite."""

from __future__ import annotations

from netcl.core.testing.pytest_plugin import default_signals as default_signals
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device
