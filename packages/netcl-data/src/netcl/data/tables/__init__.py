"""Tables: columns with kinds that are found, an encoding that is fitted to the training part, and samples."""

from __future__ import annotations

from netcl.data.tables.cells import MISSING_VALUES, TableError
from netcl.data.tables.encoded import TableDataset
from netcl.data.tables.fitting import TableEncoding
from netcl.data.tables.table import Table

__all__ = ["MISSING_VALUES", "Table", "TableDataset", "TableEncoding", "TableError"]
