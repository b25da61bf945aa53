"""Stream compaction on OpenCL devices: the positions of true elements, and the runs of equal ones."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.kernels.sorts.sort_keys import keys_text
from netcl.core.backend.opencl.templates import Traits, filled, largest_group, per_work_item, source, traits
from netcl.core.backend.recording import host_read_allowed

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

__all__ = ["nonzero", "runs"]

_GROUP = 256  # work-items at most that list a chunk together, unless the device is a CPU
_EACH = 16  # elements of each at a time
_CHUNKS_OF_UNIT = 8  # chunks for each compute unit


class _Chunks(NamedTuple):
    number: int
    length: int
    group: int


@lru_cache(maxsize=512)
def _chunks(size: int, device: Traits) -> _Chunks:
    if device.is_cpu:
        length = per_work_item(size, device)
        return _Chunks(-(-size // length), length, 1)
    group = largest_group(_GROUP, device)
    block = group * _EACH
    length = -(-size // (block * device.units * _CHUNKS_OF_UNIT)) * block
    return _Chunks(-(-size // length), length, group)


@lru_cache(maxsize=64)
def _program(name: str, dtype: str, group: int) -> str:
    dtype = "uint8" if dtype == "bool" else dtype
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("ALONE", 1) if group == 1 else ("GROUP", group))
    return filled(source(("storage", name, "group_sums", "compaction"), defines), {"keys": keys_text(dtype)})


def _listed(engine: Any, name: str, x: TensorData, *dtypes: str) -> list[TensorData]:
    """The list that the program ``name`` makes of ``x``: a tensor (n,) of each dtype; n is read on the host."""
    host_read_allowed(engine)
    chunks = _chunks(x.size, traits(engine))
    text, sizes = _program(name, x.dtype, chunks.group), (np.int64(x.size), np.int64(chunks.length))
    size, local = (chunks.number * chunks.group,), (chunks.group,)
    counts = engine.empty((chunks.number,), "int64")
    engine.launch(text, "count_true", size, local, [x, counts, *sizes])
    count = int(engine.read(counts).sum())
    found = [engine.empty((count,), dtype) for dtype in dtypes]
    if count:
        engine.launch(text, "list_true", size, local, [x, counts, *found, *sizes])
    return found


def nonzero(engine: Any, mask: TensorData) -> TensorData:
    """The flat positions of what is true in ``mask`` (bool), int64, in order. Their number is read on the host."""
    if mask.size == 0:
        host_read_allowed(engine)
        return engine.empty((0,), "int64")  # type: ignore[no-any-return]
    return _listed(engine, "compaction_true", mask, "int64")[0]


def runs(engine: Any, x: TensorData) -> tuple[TensorData, TensorData]:
    """The first element of each run of equal ones in a vector with elements, and its position, int64."""
    values, starts = _listed(engine, "compaction_runs", x, x.dtype, "int64")
    return values, starts
