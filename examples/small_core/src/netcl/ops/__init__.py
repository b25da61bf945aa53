"""The functions of the op table."""

from netcl.core.ops_table.dispatch import TABLE
from netcl.ops import arrange, elementwise, reductions, windows  # noqa: F401
from netcl.ops.table import as_function

globals().update({name: as_function(row, None) for name, row in TABLE.items()})
__all__ = sorted(TABLE)
