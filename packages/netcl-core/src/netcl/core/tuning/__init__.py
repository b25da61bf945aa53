"""Which kernel runs a contraction or a convolution: the policy, what was measured, and what comes with the package."""

from __future__ import annotations

from netcl.core.tuning import measurements as measurements  # registers its table with the selector
