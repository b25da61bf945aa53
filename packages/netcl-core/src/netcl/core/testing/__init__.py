"""Conformance tests for devices, for other backends and for another netcl-core, and the checks of an installation.

``conformance`` compares every op with float64, ``doctor`` examines the devices of a machine, ``distribution_check`` the
installed files. ``pytest_plugin`` has the device fixtures of the suites; it is not imported here because it needs
pytest. ``CONTRACT``, the portable names, is in the distribution netcl-conformance.
"""

from __future__ import annotations

from netcl.core.testing.conformance import *  # noqa: F403
from netcl.core.testing.conformance import __all__ as __all__
from netcl.core.testing.conformance import __getattr__ as __getattr__
