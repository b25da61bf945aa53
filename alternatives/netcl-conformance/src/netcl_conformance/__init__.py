"""Checks the installed netcl-core against the contract of the packages above it: ``python -m netcl_conformance``."""

from __future__ import annotations

from netcl_conformance.report import Report
from netcl_conformance.run import check

__all__ = ["Report", "check"]
