"""Attention on the matrix units of GPUs: the kernels' texts and launches, and the trial of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import engine_of_driver, kind_defines, planes_of
from netcl.core.backend.opencl.kernels.softmax_attention.attention_shape import AttentionShape, shape_of
from netcl.core.backend.opencl.templates import source, struct
from netcl.core.device.capabilities import profile_of
from netcl.core.device.drivers.child_probe import RIGHT, WRONG
from netcl.core.dtypes import from_bfloat16
from netcl.core.storage.data import TensorData
from netcl.core.tuning.matrix_units import CHUNK, local_memory
from netcl.core.tuning.unit_table import KINDS, UNITS

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


# By kernel, and by the most columns of q and v: the first that fits local memory is used (measured on an H200).
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
# The same of float32 operands in parts.
_PARTS_TILES = {
    "attend_on_unit": {64: (_Tile(4, 32, 32, False),), 128: (_Tile(4, 16, 32, False),)},
    "unit_by_q": {64: (_Tile(4, 16, 32, False),), 128: (_Tile(4, 16, 32, False),)},
    "unit_by_k_v": {64: (_Tile(4, 16, 32, False),), 128: (_Tile(4, 16, 32, False),)},
}
_TWIN_TILE = _Tile(2, 16, 16, False)
_FILES = {
    "attend_on_unit": "attention_unit_forward",
    "unit_by_q": "attention_unit_by_q",
    "unit_by_k_v": "attention_unit_by_k_v",
}


def _local_bytes(kernel: str, tile: _Tile, width: int, values: int, parts: int) -> int:
    """Returns the local memory of a kernel: its own tiles, and two buffers of a block of the other side."""
    panels = [-(-columns // 64) * 128 * max(1, parts) for columns in (width, values)]  # bytes of a row
    row_bytes = panels[0] if kernel == "attend_on_unit" else sum(panels)
    numbers = 16 * tile.block if kernel == "unit_by_k_v" else 0
    return tile.warps * tile.rows * row_bytes + 2 * tile.block * sum(panels) + numbers


def _tile(unit: str, kernel: str, width: int, values: int, most: int) -> _Tile | None:
    """Returns a kernel's tile on a device with ``most`` bytes of local memory for a work-group; None if none fits."""
    columns, (name, parts) = max(width, values), _instructions(unit)
    if name.endswith("_twin"):
        return _TWIN_TILE._replace(in_registers=columns <= 32)
    tiles = (_PARTS_TILES if parts else _TILES)[kernel]
    fitting = next((tiles[size] for size in sorted(tiles) if columns <= size), ())
    return next((tile for tile in fitting if _local_bytes(kernel, tile, width, values, parts) <= most), None)


def _instructions(unit: str) -> tuple[str, int]:
    """Returns the name of the template with a unit's instructions, and the parts of its operands."""
    tile = UNITS[unit].tiles[0].tile
    return tile.unit, tile.parts


@lru_cache(maxsize=256)
def fits(unit: str, width: int, values: int, most: int) -> bool:
    """True if the kernels' tiles of heads of these sizes fit ``most`` bytes of local memory."""
    sizes = _columns(width), _columns(values)
    return all(_tile(unit, kernel, *sizes, most) is not None for kernel in _FILES)


def _columns(size: int) -> int:
    return -(-size // 16) * 16


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


@lru_cache(maxsize=256)
def _form(dtype: str, s: AttentionShape, positive: bool) -> _Form:
    """Returns the form of a problem with a ``positive`` scale or another."""
    scaled = dtype != "float32" and (s.masked == 2 or not positive)
    return _Form(
        dtype, _columns(s.width), _columns(s.values), s.causal, s.masked, scaled,
        s.width % CHUNK == s.values % CHUNK == 0, s.width % 2 == s.values % 2 == 0,
    )  # fmt: skip


@lru_cache(maxsize=128)
def _program(unit: str, kernel: str, form: _Form, tile: _Tile) -> str:
    name, parts = _instructions(unit)
    kind = "bfloat16" if parts else form.dtype
    defines = (
        (f"DTYPE_{form.dtype.upper()}", 1), *kind_defines(KINDS[kind]),
        ("WARPS", tile.warps), ("WARP_ROWS", tile.rows), ("BLOCK", tile.block), ("WIDTH", form.width),
        ("VALUES", form.values), ("IN_REGISTERS", int(tile.in_registers)), ("CAUSAL", int(form.causal)),
        ("MASKED", form.masked), ("SCALED", int(form.scaled)), ("CHUNKS_ALIGNED", int(form.aligned)),
        ("PAIRS", int(form.pairs)), ("PARTS", parts), ("BY_KEYS", int(kernel == "unit_by_k_v")),
    )  # fmt: skip
    names = ("storage", "attention_unit_tiles", *_INSTRUCTIONS[name], "contract_attention_unit", _FILES[kernel])
    return source(names, defines)


@lru_cache(maxsize=256)
def _launch(unit: str, kernel: str, form: _Form, s: AttentionShape, most: int) -> tuple[str, int, tuple[int, int], Any]:
    """Returns the text of a kernel, the work-items of a group, the groups, and the argument with problem sizes."""
    tile = _tile(unit, kernel, form.width, form.values, most)
    assert tile is not None
    by_keys = kernel == "unit_by_k_v"
    rows, heads = (s.keys, s.heads // s.shared) if by_keys else (s.queries, s.heads)
    groups = -(-rows // (tile.warps * tile.rows)), s.samples * heads
    q_heads = s.samples * s.heads
    argument = struct(
        s.queries, s.keys, s.width, s.values, s.heads, s.shared, s.mask_steps(), q_heads, q_heads // s.shared
    )  # fmt: skip
    return _program(unit, kernel, form, tile), 32 * tile.warps, groups, argument


def _run(
    engine: Any, unit: str, kernel: str, s: AttentionShape, dtype: str, tensors: list[TensorData], scale: float
) -> None:
    form, most = _form(dtype, s, scale > 0), local_memory(profile_of(engine.queue))
    text, items, groups, argument = _launch(unit, kernel, form, s, most)
    size = groups[0] * items, groups[1]
    engine.launch(text, kernel, size, (items, 1), [*tensors, argument, np.float32(scale)])


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
    """Returns softmax(scale q k^T + mask) v, and in float32 the logarithms of the weights' divisors, by ``unit``."""
    out = engine.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = engine.empty(q.shape[:-1], "float32")
    operands = _operands(engine, unit, q, k, v)
    _run(engine, unit, "attend_on_unit", s, q.dtype, [*operands, mask, out, lse], scale)
    return out, lse


def gradients(
    engine: Any, unit: str, s: AttentionShape, operands: list[TensorData], scale: float
) -> tuple[TensorData, TensorData, TensorData]:
    """Returns the gradients by q, k and v; ``given``: the gradient by the result, q, k, v, the mask, the logarithms of
    the divisors, and the sums of the gradient times the result.
    """
    q, k, v = operands[1:4]
    by_q, by_k, by_v = (engine.empty(x.shape, x.dtype) for x in (q, k, v))
    operands = [*_operands(engine, unit, *operands[:4]), *operands[4:]]
    _run(engine, unit, "unit_by_q", s, q.dtype, [*operands, by_q], scale)
    _run(engine, unit, "unit_by_k_v", s, q.dtype, [*operands, by_k, by_v], scale)
    return by_q, by_k, by_v


def _operands(engine: Any, unit: str, *operands: TensorData) -> list[TensorData]:
    """Returns the operands as a unit takes them: float32 in planes."""
    parts = _instructions(unit)[1]
    return [planes_of(engine, operand, parts) for operand in operands] if parts else list(operands)


# -- the trial ---------------------------------------------------------------------------------------------------------


def run_trial(unit: str, key: str, share: int = 0, shares: int = 1) -> int:
    """Returns the exit code of a trial of attention on ``unit`` on the first device with the driver ``key``: results
    and gradients equal products of matrices within the rounding of its operands, with tails, of few and many columns.
    It tries every ``shares``-th case, from number ``share`` on.

    Raises LookupError if there is no such device.
    """
    engine = engine_of_driver(key)
    most = local_memory(profile_of(engine.queue))
    trials = _TRIALS_OF_PARTS if _instructions(unit)[1] else _TRIALS
    fitting = [trial for trial in trials if fits(unit, trial[3], trial[3], most)]
    cases = [(part, *trial) for part in (_gradients_of, _results_of) for trial in fitting]
    return RIGHT if all(_is_right(engine, unit, *case) for case in cases[share::shares]) else WRONG


_ERRORS = {"bfloat16": 2e-2, "float16": 3e-3}
_ERRORS_OF_PARTS = {3: 3e-6, 2: 1e-4, 1: 2e-2}
# dtype, queries, keys, columns, causal
_TRIALS = (
    ("bfloat16", 140, 150, 64, False), ("float16", 200, 200, 40, True), ("bfloat16", 70, 70, 128, True),
    ("bfloat16", 70, 90, 256, False),
)  # fmt: skip
_TRIALS_OF_PARTS = (("float32", 140, 150, 64, False), ("float32", 200, 200, 40, True), ("float32", 70, 90, 128, False))


def _results_of(
    engine: Any, unit: str, s: AttentionShape, operands: Sequence[TensorData], rows: Sequence[TensorData], scale: float
) -> tuple[TensorData, ...]:
    """Returns the result and the logarithms of its divisors, for the operands (gradient, queries, keys, values)."""
    _, q, k, v = operands
    return attend(engine, unit, s, q, k, v, q, scale)


def _gradients_of(
    engine: Any, unit: str, s: AttentionShape, operands: Sequence[TensorData], rows: Sequence[TensorData], scale: float
) -> tuple[TensorData, ...]:
    """Returns the gradients by queries, keys and values, for the same operands and numbers of each row."""
    return gradients(engine, unit, s, [*operands, operands[1], *rows], scale)


def _is_right(
    engine: Any,
    unit: str,
    part: Callable[..., tuple[TensorData, ...]],
    dtype: str,
    queries: int,
    keys: int,
    columns: int,
    causal: bool,
) -> bool:
    """True if a ``part`` of attention, results or gradients, agrees with NumPy in float64 on random operands."""

    def numbers(x: TensorData) -> Any:
        stored = engine.read(x)
        return (from_bfloat16(stored) if x.dtype == "bfloat16" else stored).astype(np.float64)

    rng, scale = np.random.default_rng(0), columns**-0.5
    arrays = (rng.standard_normal((1, 2, rows, columns)) for rows in (queries, keys, keys, queries))
    queried, keyed, valued, upstream = (engine.tensor(x.astype(np.float32), dtype) for x in arrays)
    q, k, v, grad = (numbers(x) for x in (queried, keyed, valued, upstream))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(queries, keys) > 0, scores, -np.inf)
    divisors = np.log(np.exp(scores).sum(-1))
    weights = np.exp(scores - divisors[..., None])
    inner = (grad * (weights @ v)).sum(-1)
    slopes = weights * (grad @ v.swapaxes(-1, -2) - inner[..., None]) * scale
    by_operands = (slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad)
    expected = (weights @ v, divisors) if part is _results_of else by_operands

    s = shape_of(queried, keyed, valued, None, causal)
    rows = [engine.tensor(x.astype(np.float32), "float32") for x in (divisors, inner)]
    results = part(engine, unit, s, (upstream, queried, keyed, valued), rows, scale)
    most = _ERRORS_OF_PARTS[_instructions(unit)[1]] if dtype == "float32" else _ERRORS[dtype]
    return all(
        np.abs(numbers(result) - exact).max() <= most * max(np.abs(exact).max(), 1.0)
        for result, exact in zip(results, expected)
    )
