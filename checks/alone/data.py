"""netcl-data alone: batches of the digits, and nothing of netcl-core loaded."""

from __future__ import annotations

import sys

from netcl.data import ArrayDataset, DataLoader
from netcl.data.readers import example_digits

x, y = example_digits()
batches = list(DataLoader(ArrayDataset(x, y), batch_size=256, shuffle=True, seed=0))
assert sum(len(labels) for _, labels in batches) == 1797
assert batches[0][0].shape == (256, 1, 8, 8)
assert "netcl.core" not in sys.modules
