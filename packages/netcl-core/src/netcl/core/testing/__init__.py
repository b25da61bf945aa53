"""Conformance tests for devices, for other backends and for another netcl-core, and the checks of an installation.

``conformance`` compares every op with float64, ``contract`` lists the portable names, ``doctor`` examines the devices
of a machine, ``distribution_check`` the installed files. ``pytest_plugin`` has the device fixtures of the suites; it is
not imported here because it needs pytest.
"""

from __future__ import annotations

from netcl.core.testing.conformance import (
    MASKS,
    TOLERANCE,
    Case,
    Report,
    assert_close,
    check_backend,
    check_core,
    check_device,
    check_family,
    expected,
    families_of,
    masked,
    op_cases,
    refusal,
    run_case,
    signature_of,
)
from netcl.core.testing.contract import CONTRACT

__all__ = [
    "CONTRACT",
    "MASKS",
    "TOLERANCE",
    "Case",
    "Report",
    "assert_close",
    "check_backend",
    "check_core",
    "check_device",
    "check_family",
    "expected",
    "families_of",
    "masked",
    "op_cases",
    "refusal",
    "run_case",
    "signature_of",
]
