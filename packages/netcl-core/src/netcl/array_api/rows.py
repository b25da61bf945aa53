"""The rows of the op table as functions that record, by name."""

from __future__ import annotations

from functools import cache
from typing import Any

import netcl.ops  # noqa: F401  (fills the op table)
from netcl.core.ops_table.dispatch import row_of
from netcl.ops.table import OpFunction, as_function


@cache
def row(name: str) -> OpFunction:
    """Returns the function that calls the row ``name``, recorded for gradients if netcl.autograd is loaded."""
    return as_function(row_of(name), True)


def defined(names: dict[str, Any]) -> list[str]:
    """Returns the public functions among the global names of a module that are its own."""
    own = (name for name, value in names.items() if getattr(value, "__module__", "") == names["__name__"])
    return sorted(name for name in own if name[0].islower())
