"""Stream compaction with NumPy: the positions of true elements, and the runs of equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import widened
from netcl.core.storage.data import TensorData


def nonzero(engine: Any, mask: TensorData) -> TensorData:
    """Returns the flat positions of true elements in ``mask`` (bool), int64, in order. Reads their number."""
    return engine.tensor(np.flatnonzero(engine.read(mask)), "int64")  # type: ignore[no-any-return]


def runs(engine: Any, x: TensorData, wanted: Sequence[str]) -> list[TensorData]:
    """Returns the first element of each run in a vector with elements, and with "first" wanted its position, int64."""
    stored = engine.read(x)
    elements = widened(stored, x.dtype)
    starts = np.flatnonzero(np.concatenate(([True], elements[1:] != elements[:-1])))
    values = engine.empty(starts.shape, x.dtype)
    values.array[...] = stored[starts]
    return [values, *([engine.tensor(starts, "int64")] if "first" in wanted else [])]
