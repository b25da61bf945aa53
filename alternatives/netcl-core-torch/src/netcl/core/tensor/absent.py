"""Functions of PyTorch that netcl does not have."""

from __future__ import annotations

ABSENT_FUNCTIONS, ABSENT_MODULES = dict[str, str](), dict[str, str]()
