"""Words that are zeroed before work-groups publish states in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.backend.opencl.templates import source
from netcl.core.storage.data import TensorData

_GROUP, _MOST = 128, 1 << 16  # work-items of a group, and of all


def _program() -> str:
    return source(("clear_words",), ())


def cleared(engine: Any, count: int) -> TensorData:
    """Returns a tensor of ``count`` zeros of 32 bits, set by a launch of the engine's: plans of calls have no fills."""
    words: TensorData = engine.empty((count,), "int32")
    items = min(-(-count // _GROUP) * _GROUP, _MOST)
    engine.launch(_program(), "clear_words", (items,), (_GROUP,), [words, np.uint32(count)])
    return words
