"""The levels of the contract of netcl-core that this core keeps."""

from __future__ import annotations

LEVELS = frozenset({"tensor", "ops-basic", "ops-full", "gradient", "expressions", "random", "half", "several-devices"})
