"""Stream compaction on OpenCL devices: the positions of true elements, and the runs of equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.kernels.sorts.sort_keys import keys_text
from netcl.core.backend.opencl.queue.call_plan import repeated
from netcl.core.backend.opencl.templates import Traits, filled, largest_group, per_work_item, source, traits
from netcl.core.backend.recording import host_read_allowed

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

__all__ = ["nonzero", "runs"]

_GROUP = 128  # work-items at most that list a chunk together, unless the device is a CPU
_EACH = 16  # elements of each at a time
_CHUNKS_OF_UNIT = 16  # chunks for each compute unit


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
def _program(name: str, dtype: str, group: int, starts: bool = False) -> str:
    dtype = "uint8" if dtype == "bool" else dtype
    how = ("ALONE", 1) if group == 1 else ("GROUP", group)
    defines = ((f"DTYPE_{dtype.upper()}", 1), how, ("STARTS", int(starts)))
    return filled(source(("storage", name, "group_sums", "compaction"), defines), {"keys": keys_text(dtype)})


def _listed(engine: Any, name: str, x: TensorData, *dtypes: str) -> list[TensorData]:
    """The list that the program ``name`` makes of ``x``: a tensor (n,) of each dtype; n is read on the host."""
    host_read_allowed(engine)
    chunks = _chunks(x.size, traits(engine))
    text, sizes = _program(name, x.dtype, chunks.group, len(dtypes) > 1), (np.int64(x.size), np.int64(chunks.length))
    size, local = (chunks.number * chunks.group,), (chunks.group,)

    def launch(kernel: str, engine: Any, *tensors: TensorData) -> None:
        engine.launch(text, kernel, size, local, [*tensors, *sizes])

    counts = engine.empty((chunks.number,), "int64")
    repeated(engine, ("count_true", text, x.size), partial(launch, "count_true"), (x, counts))
    count = int(engine.read(counts).sum())
    found = [engine.empty((count,), dtype) for dtype in dtypes]
    if count:
        repeated(engine, ("list_true", text, x.size), partial(launch, "list_true"), (x, counts, *found))
    return found


def nonzero(engine: Any, mask: TensorData) -> TensorData:
    """The flat positions of what is true in ``mask`` (bool), int64, in order. Their number is read on the host."""
    if mask.size == 0:
        host_read_allowed(engine)
        return engine.empty((0,), "int64")  # type: ignore[no-any-return]
    return _listed(engine, "compaction_true", mask, "int64")[0]


def runs(engine: Any, x: TensorData, wanted: Sequence[str]) -> list[TensorData]:
    """The first element of each run of equal ones in a vector with elements, and with "first" in ``wanted`` its
    position, int64.
    """
    return _listed(engine, "compaction_runs", x, x.dtype, *(["int64"] if "first" in wanted else []))
