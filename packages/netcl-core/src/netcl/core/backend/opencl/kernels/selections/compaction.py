"""Stream compaction on OpenCL devices: the positions of true elements, and the runs of equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.kernels.sort_keys import keyed_program
from netcl.core.backend.opencl.kernels.warps import look_back
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.templates import Traits, largest_group, per_work_item, profile, traits
from netcl.core.dtypes import itemsize
from netcl.core.engine.recording import host_read_allowed
from netcl.core.storage.data import TensorData
from netcl.core.tuning.warp_table import warp_of

_GROUP = 128  # work-items at most that list a chunk together, unless the device is a CPU
_EACH = 16  # elements of each at a time
_CHUNKS_OF_UNIT = 16  # chunks for each compute unit
_SWEEP_GROUP = 256  # work-items that list a tile together where they look back
_LEAST_SWEPT, _MOST_SWEPT = 1 << 14, 1 << 31  # elements; their number has a word
_SHARE_OF_MEMORY = 16  # of the device's, which has room for all elements


class _Chunks(NamedTuple):
    number: int
    length: int
    group: int
    warp: str = ""  # a row of the table of warps: a chunk is what a work-group lists at once


@lru_cache(maxsize=512)
def _chunks(size: int, device: Traits) -> _Chunks:
    if device.is_cpu:
        length = per_work_item(size, device)
        return _Chunks(-(-size // length), length, 1)
    group = largest_group(_GROUP, device)
    block = group * _EACH
    length = -(-size // (block * device.units * _CHUNKS_OF_UNIT)) * block
    return _Chunks(-(-size // length), length, group)


def _program(name: str, dtype: str, group: int, starts: bool = False, warp: str = "") -> str:
    """Returns the text that lists the elements selected by the template ``name``; with ``warp`` in one pass."""
    numbers: dict[str, object] = {"STARTS": int(starts), "ALONE": 1}
    if group > 1:
        numbers = {"STARTS": int(starts), "GROUP": group, "EACH": _EACH, "FAN": look_back.FAN}
        numbers["state"] = "uint" if warp else "long"
    return keyed_program(dtype, name, *look_back.templates(warp), "compaction", **numbers)


def _listed(engine: Any, name: str, x: TensorData, *dtypes: str) -> list[TensorData]:
    """Returns the list that the program ``name`` makes of ``x``: a tensor (n,) for each dtype; the host reads n."""
    host_read_allowed(engine)
    room = sum(map(itemsize, dtypes)) * x.size
    swept = _LEAST_SWEPT <= x.size < _MOST_SWEPT and room <= profile(engine).global_mem_size // _SHARE_OF_MEMORY
    if swept and (warp := warp_of(profile(engine))) is not None:
        return _swept(engine, name, x, warp, *dtypes)
    chunks = _chunks(x.size, traits(engine))
    counts = engine.empty((chunks.number,), "int64")
    _launch(engine, "count_true", name, chunks, len(dtypes) > 1, x, counts)
    results = [engine.empty((int(engine.read(counts).sum()),), dtype) for dtype in dtypes]
    if results[0].size:
        _launch(engine, "list_true", name, chunks, len(dtypes) > 1, x, counts, *results)
    return results


def _launch(engine: Any, kernel: str, name: str, chunks: _Chunks, starts: bool, x: TensorData, *lists: Any) -> None:
    """Launches a kernel of the program ``name`` over ``chunks``, planned."""
    text, size = _program(name, x.dtype, chunks.group, starts, chunks.warp), x.size

    def launch(engine: Any, *tensors: Any) -> None:
        if chunks.warp:
            signals = engine.signals(look_back.signal_words(1, chunks.number, 1))
            tensors = (tensors[0], signals, np.uint32(signals.size), *tensors[1:])
        arguments = [*tensors, np.int64(size), np.int64(chunks.length)]
        engine.launch(text, kernel, (chunks.number * chunks.group,), (chunks.group,), arguments)

    run_planned(engine, (kernel, text, size), launch, (x, *lists))


def _swept(engine: Any, name: str, x: TensorData, warp: str, *dtypes: str) -> list[TensorData]:
    """Returns the list in one pass over the data: there is room for all elements, so that the host waits for their
    number once, at the end. Lists of less than a quarter of the elements are copied to memory of their own.
    """
    length = _SWEEP_GROUP * _EACH
    full = [engine.empty((x.size,), dtype) for dtype in dtypes]
    number = engine.empty((1,), "int64")
    chunks = _Chunks(-(-x.size // length), length, _SWEEP_GROUP, warp)
    _launch(engine, "list_true", name, chunks, len(dtypes) > 1, x, *full, number)
    count = int(engine.read(number)[0])
    return [_first(engine, tensor, count) for tensor in full]


def _first(engine: Any, listed: Any, count: int) -> TensorData:
    """Returns the first ``count`` elements of a vector, in its memory unless they are less than a quarter."""
    head: TensorData = listed._alias((count,))
    if 4 * count >= listed.size:
        return head
    copied: TensorData = engine.empty((count,), listed.dtype)
    if count:
        engine.copy(head, copied, shape=(count,), source_strides=(1,), source_offset=0, out_strides=(1,), out_offset=0)
    return copied


def nonzero(engine: Any, mask: TensorData) -> TensorData:
    """Returns the flat positions of true elements of ``mask`` (bool), int64, in order. Reads their number."""
    if mask.size == 0:
        host_read_allowed(engine)
        return engine.empty((0,), "int64")  # type: ignore[no-any-return]
    return _listed(engine, "compaction_true", mask, "int64")[0]


def runs(engine: Any, x: TensorData, wanted: Sequence[str]) -> list[TensorData]:
    """Returns the first element of each run in a vector with elements, and with "first" wanted its position, int64."""
    return _listed(engine, "compaction_runs", x, x.dtype, *(["int64"] if "first" in wanted else []))
