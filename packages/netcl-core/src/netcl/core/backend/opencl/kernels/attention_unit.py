"""Attention on the matrix units of GPUs: the kernels' texts and launches, and the trial of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.matrix_units import ELEMENTS, KINDS
from netcl.core.backend.opencl.kernels.attention_shape import AttentionShape, shape_of
from netcl.core.backend.opencl.templates import source, struct
from netcl.core.backend.registry import engine_for
from netcl.core.device.capabilities import profile_of
from netcl.core.device.child_probe import RIGHT, WRONG, driver_key
from netcl.core.device.discovery import manager
from netcl.core.dtypes import from_bfloat16
from netcl.core.tuning.matrix_units import CHUNK, local_memory

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

__all__ = ["attend", "gradients", "run_trial"]

_INSTRUCTIONS = {
    "mma": ("matrix_unit_nvidia", "matrix_unit_mma", "attention_unit_mma"),
    "mma_twin": ("matrix_unit_plain", "matrix_unit_mma_twin", "attention_unit_mma_twin"),
}


class _Tile(NamedTuple):
    """The blocking of a kernel: the warps of a work-group and the rows of each, the rows of a block of the other side,
    and if fragments of the work-group's own rows stay in registers.
    """

    warps: int
    rows: int
    block: int
    in_registers: bool


# By kernel, and by the most columns of q and v: the first that fits local memory is taken (measured on an H200).
_TILES = {
    "attend_on_unit": {
        64: (_Tile(4, 32, 64, True),),
        128: (_Tile(4, 32, 64, False),),
        256: (_Tile(8, 16, 64, False), _Tile(4, 16, 32, False)),
    },
    "unit_by_q": {
        64: (_Tile(4, 32, 64, False),),
        128: (_Tile(8, 16, 64, False), _Tile(4, 16, 32, True)),
        256: (_Tile(4, 16, 16, False),),
    },
    "unit_by_k_v": {
        64: (_Tile(4, 32, 64, False),),
        128: (_Tile(8, 16, 64, False), _Tile(4, 16, 32, False)),
        256: (_Tile(4, 16, 16, False),),
    },
}
_TWIN_TILE = _Tile(2, 16, 16, False)
_FILES = {
    "attend_on_unit": "attention_unit_forward",
    "unit_by_q": "attention_unit_by_q",
    "unit_by_k_v": "attention_unit_by_k_v",
}


def _local_bytes(kernel: str, tile: _Tile, width: int, values: int) -> int:
    """The local memory of a kernel: its own tiles, and two buffers of a block of the other side."""
    panels = [-(-columns // 64) * 128 for columns in (width, values)]  # bytes of a row
    own = panels[0] if kernel == "attend_on_unit" else sum(panels)
    numbers = 16 * tile.block if kernel == "unit_by_k_v" else 0
    return tile.warps * tile.rows * own + 2 * tile.block * sum(panels) + numbers


def _tile(unit: str, kernel: str, width: int, values: int, most: int) -> _Tile:
    """The tile of a kernel on a device with ``most`` bytes of local memory for a work-group."""
    columns = max(width, values)
    if unit.endswith("_twin"):
        return _TWIN_TILE._replace(in_registers=columns <= 32)
    tiles = _TILES[kernel]
    fitting = tiles[min(size for size in tiles if columns <= size)]
    return next((one for one in fitting if _local_bytes(kernel, one, width, values) <= most), fitting[-1])


class _Form(NamedTuple):
    """The properties of a problem that a kernel's text depends on; columns are multiples of 16."""

    dtype: str
    width: int
    values: int
    causal: bool
    masked: int
    scaled: bool
    aligned: bool
    pairs: bool


def _form(dtype: str, s: AttentionShape, scale: float) -> _Form:
    return _Form(
        dtype, -(-s.width // 16) * 16, -(-s.values // 16) * 16, s.causal, s.masked, s.masked == 2 or not scale > 0,
        s.width % CHUNK == s.values % CHUNK == 0, s.width % 2 == s.values % 2 == 0,
    )  # fmt: skip


@lru_cache(maxsize=128)
def _program(unit: str, kernel: str, form: _Form, tile: _Tile) -> str:
    defines = (
        (f"DTYPE_{form.dtype.upper()}", 1), ("KIND", f'"{KINDS[form.dtype]}"'), ("ELEMENT_X", ELEMENTS[form.dtype]),
        ("WARPS", tile.warps), ("WARP_ROWS", tile.rows), ("BLOCK", tile.block), ("WIDTH", form.width),
        ("VALUES", form.values), ("IN_REGISTERS", int(tile.in_registers)), ("CAUSAL", int(form.causal)),
        ("MASKED", form.masked), ("SCALED", int(form.scaled)), ("CHUNKS_ALIGNED", int(form.aligned)),
        ("PAIRS", int(form.pairs)), ("PARTS", 0),
    )  # fmt: skip
    parts = ("storage", "attention_unit_tiles", *_INSTRUCTIONS[unit], "contract_attention_unit", _FILES[kernel])
    return source(parts, defines)


def _run(
    engine: Any, unit: str, kernel: str, s: AttentionShape, dtype: str, tensors: list[TensorData], scale: float
) -> None:
    form = _form(dtype, s, scale)
    tile = _tile(unit, kernel, form.width, form.values, local_memory(profile_of(engine.queue)))
    by_keys = kernel == "unit_by_k_v"
    rows, heads = (s.keys, s.heads // s.shared) if by_keys else (s.queries, s.heads)
    items = 32 * tile.warps
    groups = -(-rows // (tile.warps * tile.rows)), s.samples * heads
    argument = struct(s.queries, s.keys, s.width, s.values, s.heads, s.shared, s.mask_steps())
    engine.launch(
        _program(unit, kernel, form, tile), kernel, (groups[0] * items, groups[1]), (items, 1),
        [*tensors, argument, np.float32(scale)],
    )  # fmt: skip


def attend(
    engine: Any,
    unit: str,
    s: AttentionShape,
    q: TensorData,
    k: TensorData,
    v: TensorData,
    mask: TensorData,
    scale: float,
) -> tuple[TensorData, TensorData]:
    """Returns softmax(scale q k^T + mask) v in the operands' dtype of 16 bits, and in float32 the logarithms of the
    weights' divisors, by the kernel of the unit ``unit``.
    """
    out = engine.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = engine.empty(q.shape[:-1], "float32")
    _run(engine, unit, "attend_on_unit", s, q.dtype, [q, k, v, mask, out, lse], scale)
    return out, lse


def gradients(
    engine: Any, unit: str, s: AttentionShape, given: list[TensorData], scale: float
) -> tuple[TensorData, TensorData, TensorData]:
    """Returns the gradients by q, k and v; ``given``: the gradient by the result, q, k, v, the mask, the logarithms of
    the divisors, and the sums of the gradient times the result.
    """
    q, k, v = given[1:4]
    by_q, by_k, by_v = (engine.empty(x.shape, x.dtype) for x in (q, k, v))
    _run(engine, unit, "unit_by_q", s, q.dtype, [*given, by_q], scale)
    _run(engine, unit, "unit_by_k_v", s, q.dtype, [*given, by_k, by_v], scale)
    return by_q, by_k, by_v


# -- the trial ---------------------------------------------------------------------------------------------------------


def run_trial(unit: str, key: str) -> int:
    """Returns the exit code of a trial of attention on ``unit`` on the first device with the driver ``key``: results
    and gradients are those of products of matrices within the rounding of 16 bits, with tails, of few and many columns.

    Raises LookupError if there is no such device.
    """
    for selector, _, device in manager.numbered():
        if driver_key(device) == key:
            engine = engine_for(manager.default(selector))
            return RIGHT if all(_is_right(engine, unit, *trial) for trial in _TRIALS) else WRONG
    raise LookupError(f"the child does not find the device {key}")


_ERRORS = {"bfloat16": 2e-2, "float16": 3e-3}
# dtype, queries, keys, columns, causal
_TRIALS = (
    ("bfloat16", 140, 150, 64, False), ("float16", 200, 200, 40, True), ("bfloat16", 70, 70, 128, True),
    ("bfloat16", 70, 90, 256, False),
)  # fmt: skip


def _is_right(engine: Any, unit: str, dtype: str, queries: int, keys: int, columns: int, causal: bool) -> bool:
    """True if attention and its gradients are those of NumPy in float64, for drawn operands."""

    def numbers(x: TensorData) -> Any:
        stored = engine.read(x)
        return (from_bfloat16(stored) if x.dtype == "bfloat16" else stored).astype(np.float64)

    rng, scale = np.random.default_rng(0), columns**-0.5
    arrays = (rng.standard_normal((1, 2, rows, columns)) for rows in (queries, keys, keys, queries))
    queried, keyed, valued, given = (engine.tensor(x.astype(np.float32), dtype) for x in arrays)
    q, k, v, grad = (numbers(x) for x in (queried, keyed, valued, given))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(queries, keys) > 0, scores, -np.inf)
    divisors = np.log(np.exp(scores).sum(-1))
    weights = np.exp(scores - divisors[..., None])
    inner = (grad * (weights @ v)).sum(-1)
    slopes = weights * (grad @ v.swapaxes(-1, -2) - inner[..., None]) * scale
    wanted = (weights @ v, divisors, slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad)

    s = shape_of(queried, keyed, valued, None, causal)
    found = attend(engine, unit, s, queried, keyed, valued, queried, scale)
    rows = [engine.tensor(x.astype(np.float32), "float32") for x in (divisors, inner)]
    others = gradients(engine, unit, s, [given, queried, keyed, valued, queried, *rows], scale)
    most = _ERRORS[dtype]
    return all(
        np.abs(numbers(one) - exact).max() <= most * max(np.abs(exact).max(), 1.0)
        for one, exact in zip((*found, *others), wanted)
    )
