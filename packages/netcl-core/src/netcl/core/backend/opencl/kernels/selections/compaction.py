"""Stream compaction on OpenCL devices: the positions of true elements, and the runs of equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.kernels.sorts.sort_keys import keys_text
from netcl.core.backend.opencl.kernels.warps import look_back
from netcl.core.backend.opencl.kernels.warps.warp_templates import WARP_TEMPLATES
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.templates import Traits, filled, largest_group, per_work_item, profile, source, traits
from netcl.core.backend.recording import host_read_allowed
from netcl.core.dtypes import itemsize
from netcl.core.tuning.warp_table import warp_of

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_GROUP = 128  # work-items at most that list a chunk together, unless the device is a CPU
_EACH = 16  # elements of each at a time
_CHUNKS_OF_UNIT = 16  # chunks for each compute unit
_SWEEP_GROUP, _SWEEP_EACH = 256, 32  # work-items that list a tile together, and elements of each
_LEAST_SWEPT, _MOST_SWEPT = 1 << 14, 1 << 31  # elements; their number has a word
_SHARE_OF_MEMORY = 16  # of the device's, which has room for all elements


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
    how = ("ALONE", 1) if group == 1 else ("GROUP", group)
    return _text(name, dtype, starts, ("group_sums", "compaction"), how)


@lru_cache(maxsize=64)
def _sweep_program(name: str, dtype: str, warp: str, starts: bool = False) -> str:
    defines = (("GROUP", _SWEEP_GROUP), ("EACH", _SWEEP_EACH), ("FAN", look_back.FAN), ("state", "uint"))
    return _text(name, dtype, starts, (WARP_TEMPLATES[warp], look_back.TEMPLATE, "compaction_sweep"), *defines)


def _text(name: str, dtype: str, starts: bool, how: tuple[str, ...], *defines: tuple[str, object]) -> str:
    """Returns the text that lists the elements selected by the template ``name``, by the templates ``how``."""
    dtype = "uint8" if dtype == "bool" else dtype
    defines = ((f"DTYPE_{dtype.upper()}", 1), *defines, ("STARTS", int(starts)))
    return filled(source(("storage", name, *how), defines), {"keys": keys_text(dtype)})


def _listed(engine: Any, name: str, x: TensorData, *dtypes: str) -> list[TensorData]:
    """Returns the list that the program ``name`` makes of ``x``: one tensor (n,) for each dtype; n is read on the
    host.
    """
    host_read_allowed(engine)
    room = sum(map(itemsize, dtypes)) * x.size
    swept = _LEAST_SWEPT <= x.size < _MOST_SWEPT and room <= profile(engine).global_mem_size // _SHARE_OF_MEMORY
    if swept and (warp := warp_of(profile(engine))) is not None:
        return _swept(engine, name, x, warp, *dtypes)
    chunks = _chunks(x.size, traits(engine))
    text = _program(name, x.dtype, chunks.group, len(dtypes) > 1)
    sizes = np.int64(x.size), np.int64(chunks.length)
    size, local = (chunks.number * chunks.group,), (chunks.group,)

    def launch(kernel: str, engine: Any, *tensors: TensorData) -> None:
        engine.launch(text, kernel, size, local, [*tensors, *sizes])

    counts = engine.empty((chunks.number,), "int64")
    run_planned(engine, ("count_true", text, x.size), partial(launch, "count_true"), (x, counts))
    count = int(engine.read(counts).sum())
    results = [engine.empty((count,), dtype) for dtype in dtypes]
    if count:
        run_planned(engine, ("list_true", text, x.size), partial(launch, "list_true"), (x, counts, *results))
    return results


def _swept(engine: Any, name: str, x: TensorData, warp: str, *dtypes: str) -> list[TensorData]:
    """Returns the list in one pass over the data: there is room for all elements, so that the host waits for their
    number once, at the end. Lists of less than a quarter of the elements are copied to memory of their own.
    """
    text = _sweep_program(name, x.dtype, warp, len(dtypes) > 1)
    tiles = -(-x.size // (_SWEEP_GROUP * _SWEEP_EACH))

    def launch(engine: Any, x: TensorData, *results: TensorData) -> None:
        signals = engine.signals(look_back.signal_words(1, tiles, 1))
        arguments = [x, signals, np.uint32(signals.size), *results, np.int64(x.size)]
        engine.launch(text, "list_sweep", (tiles * _SWEEP_GROUP,), (_SWEEP_GROUP,), arguments)

    full = [engine.empty((x.size,), dtype) for dtype in dtypes]
    number = engine.empty((1,), "int64")
    run_planned(engine, ("list_sweep", text, x.size), launch, (x, *full, number))
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
    """Returns the flat positions of true elements of ``mask`` (bool), int64, in order. Their number is read on the
    host.
    """
    if mask.size == 0:
        host_read_allowed(engine)
        return engine.empty((0,), "int64")  # type: ignore[no-any-return]
    return _listed(engine, "compaction_true", mask, "int64")[0]


def runs(engine: Any, x: TensorData, wanted: Sequence[str]) -> list[TensorData]:
    """Returns the first element of each run of equal ones in a vector with elements, and with "first" in ``wanted`` its
    position, int64.
    """
    return _listed(engine, "compaction_runs", x, x.dtype, *(["int64"] if "first" in wanted else []))
