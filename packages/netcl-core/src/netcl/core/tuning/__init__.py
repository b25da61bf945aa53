"""Chooses the kernel of a contraction or convolution: by the policy, measurements, and the table of the package."""

from __future__ import annotations

from netcl.core.tuning import measurements as measurements  # registers its table with the selector
