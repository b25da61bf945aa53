"""Products with packed matrices, and unpacking them. The parts of such a matrix are operands of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from netcl.core.dtypes import canonical
from netcl.core.engine.packed_formats import FORMATS, Format, format_of, unpacked
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.packed.tensor import PackedTensor
from netcl.core.process.grad_mode import state
from netcl.core.storage.data import requires_grad
from netcl.core.tensor import Tensor
from netcl.ops.activation import gelu, silu
from netcl.ops.arrange import narrow
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add, mul
from netcl.ops.norm import rms_norm
from netcl.ops.shape import reshape
from netcl.ops.table import as_dtype, composite, computed, engine_of, with_gradient

Packed: TypeAlias = PackedTensor  # no "Tensor" in its name: the op table takes it for an attribute


def _sample(rng: np.random.Generator, row: Format, rows: int, columns: int) -> list[Any]:
    """Returns parts: scales of few bits, which every floating dtype holds."""
    parts = []
    for field in row.fields:
        shape = (rows, columns // row.block * field.count)
        if field.dtype == "float16":
            parts.append(rng.integers(-7, 8, shape) / 64)
        else:
            low, high = (120, 132) if field.name == "e" else (np.iinfo(field.dtype).min, np.iinfo(field.dtype).max + 1)
            high = 64 if field.name in ("scales", "mins") and field.dtype == "uint8" else high
            parts.append(rng.integers(low, high, shape).astype(field.dtype))
    return parts


def _as_stored(parts: Any, format: str) -> list[Any]:
    return [np.asarray(part).astype(field.dtype) for part, field in zip(parts, FORMATS[format].fields)]


def _unpack_cases(rng: np.random.Generator) -> Cases:
    for row in FORMATS.values():
        yield tuple(_sample(rng, row, 3, 2 * row.block)), {"format": row.name}


def _unpack_reference(*parts: Any, format: str, dtype: str = "float32") -> Any:
    return unpacked(format, _as_stored(parts, format)).astype(np.float64)


def _checked(op: str, parts: tuple[Tensor, ...], format: str) -> tuple[list[Tensor], int, int]:
    """Returns the parts in their dtypes, and the rows and columns of the matrix."""
    row = format_of(format)
    if len(parts) != len(row.fields):
        names = ", ".join(field.name for field in row.fields)
        raise ArgumentError(f"{op}: expected the {len(row.fields)} parts of {format} ({names}), got {len(parts)}")
    rows, blocks = parts[0].shape[0], parts[0].shape[1] // row.fields[0].count
    for part, field in zip(parts, row.fields):
        if part.shape != (rows, blocks * field.count):
            raise ShapeError(f"{op}: expected {field.name} of shape {(rows, blocks * field.count)}, got {part.shape}")
    return [as_dtype(part, field.dtype) for part, field in zip(parts, row.fields)], rows, blocks * row.block


@computed(domain=compared(_unpack_cases, _unpack_reference, gradient=False))
def packed_unpack(*parts: Tensor, format: str, dtype: Any = "float32") -> Tensor:
    """Returns the numbers (rows, columns) of a matrix in a packed format, from its parts (rows, elements), in the
    floating ``dtype``. Raises ArgumentError for another number of parts, ShapeError for other shapes.
    """
    engine = engine_of("packed_unpack", *parts)
    fields, _, _ = _checked("packed_unpack", parts, format)
    return engine.packed_unpack(fields, format=format, dtype=canonical(dtype))


def _product_cases(rng: np.random.Generator) -> Cases:
    for row in FORMATS.values():
        for count, turned in ((1, False), (3, False), (2, True)):
            parts = _sample(rng, row, 5, row.block)
            x = rng.integers(-127, 128, (count, 5 if turned else row.block)) / 64  # exact in sixteen bits
            yield (x, *parts), {"format": row.name, "turned": turned}


def _product_reference(x: Any, *parts: Any, format: str, turned: bool = False) -> Any:
    weight = unpacked(format, _as_stored(parts, format)).astype(np.float64)
    return x @ (weight if turned else weight.T)


def _by_x(call: Any, grad: Any) -> Mapping[str, Any]:
    turned = not call.turned
    return {"x": call.op("packed_product", grad, *call.parts, format=call.format, turned=turned)}


@with_gradient(
    _by_x, {"x": ("parts",)}, domain=compared(_product_cases, _product_reference, gradient=False), dtypes="floating"
)
def packed_product(x: Tensor, *parts: Tensor, format: str, turned: bool = False) -> Tensor:
    """Returns x (m, columns) times the transpose of a packed matrix, from its parts (rows, elements); with ``turned``
    x (m, rows) times the matrix, which is constant. Sums are in float32, or float64 for x in float64. On CPUs few rows
    of x are rounded to sixteen bits with a scale for 32 neighbours. For many rows the matrix is rounded to the dtype
    of x.
    """
    engine = engine_of("packed_product", x, *parts)
    fields, rows, columns = _checked("packed_product", parts, format)
    wanted = rows if turned else columns
    if x.ndim != 2 or x.shape[1] != wanted:
        raise ShapeError(f"packed_product: expected x of shape (m, {wanted}), got {x.shape}")
    if not x.shape[0] * rows * columns:
        return engine.zeros((x.shape[0], columns if turned else rows), x.dtype)  # type: ignore[no-any-return]
    return engine.packed_product(x, fields, format=format, turned=turned)


_FUSED_ROWS = 4  # of x: more have launches of their own around the product
_GATES: Mapping[str, Any] = {"silu": silu, "gelu": partial(gelu, approximate="tanh")}
_EXTRAS = ("norm", "bias", "residual")


def _act(x: Any, gate: str) -> Any:
    inner = x if gate == "silu" else 1.5957691216 * (x + 0.044715 * x**3)
    return x * (np.tanh(inner / 2) + 1) / 2  # without overflow


def _fused_reference(x: Any, *operands: Any, format: str, extras: Any, eps: float = 1e-6, gate: str = "") -> Any:
    parts, given = operands[: -len(extras) or None], dict(zip(extras, operands[len(operands) - len(extras) :]))
    if "norm" in given:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * given["norm"]
    y = _product_reference(x, *parts, format=format) + given.get("bias", 0)
    if gate:
        first, second = np.split(y, 2, -1)
        y = _act(first, gate) * second
    return y + given.get("residual", 0)


def _fused_cases(rng: np.random.Generator) -> Cases:
    # Without a norm, after which x would not be exact in sixteen bits.
    for row in FORMATS.values():
        for count, extras, gate in ((1, _EXTRAS[1:], ""), (3, ("residual",), "silu"), (2, ("bias",), "gelu")):
            sizes = {"bias": (6,), "residual": (count, 3 if gate else 6)}
            x, parts = rng.integers(-127, 128, (count, row.block)) / 64, _sample(rng, row, 6, row.block)
            given = [rng.integers(1, 8, sizes[name]) / 4 for name in extras]
            yield (x, *parts, *given), {"format": row.name, "extras": extras, "gate": gate}


@computed(domain=compared(_fused_cases, _fused_reference, gradient=False), dtypes="floating")
def packed_fused(
    x: Tensor, *operands: Tensor, format: str, extras: tuple[str, ...], eps: float = 1e-6, gate: str = ""
) -> Tensor:
    """Returns ``packed_linear`` of x (m, columns) in one launch for few rows, without a gradient. ``operands`` are the
    parts of the matrix, then the tensors that ``extras`` names in this order: norm, bias, residual.
    """
    count = len(operands) - len(extras)
    given: dict[str, Tensor] = {name: as_dtype(value, x.dtype) for name, value in zip(extras, operands[count:])}
    engine = engine_of("packed_fused", x, *operands)
    fields, rows, columns = _checked("packed_fused", operands[:count], format)
    wanted = rows // 2 if gate else rows
    shapes = {"x": (x.shape[0], columns), "norm": (columns,), "bias": (rows,), "residual": (x.shape[0], wanted)}
    for name, value in (("x", x), *given.items()):
        if value.shape != shapes[name]:
            raise ShapeError(f"packed_fused: expected {name} of shape {shapes[name]}, got {value.shape}")
    if gate and (gate not in _GATES or rows % 2):
        raise ArgumentError(f"packed_fused: expected silu or gelu as gate and an even number of rows, got {gate!r}")
    if 0 < x.shape[0] <= _FUSED_ROWS and x.dtype != "float64" and rows * columns:
        extra = [given.get(name) for name in _EXTRAS]
        return engine.packed_fused(x, fields, extra, format=format, eps=eps, gate=gate)
    norm = given.get("norm")
    x = x if norm is None else rms_norm(x, (columns,), norm, eps)
    return _finished(packed_product(x, *fields, format=format), gate, given.get("bias"), given.get("residual"))


def _finished(y: Tensor, gate: str, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    y = y if bias is None else add(y, bias)
    if gate:
        half = y.shape[-1] // 2
        y = mul(_GATES[gate](narrow(y, -1, 0, half)), narrow(y, -1, half, half))
    return y if residual is None else add(y, residual)


@composite()
def packed_linear(
    x: Tensor,
    w: Packed,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    eps: float = 1e-6,
    gate: str = "",
) -> Tensor:
    """Returns x (..., columns) times the transpose of a PackedTensor (rows, columns), plus ``bias`` (rows,): the linear
    layer of a weight that stays packed. ``w`` is constant; the others have gradients.

    With ``norm`` (columns,) the product is of ``rms_norm(x, norm, eps)``. With ``gate``, "silu" or "gelu", the result
    is gate(first half) * second half of the product; ``residual`` is added last. Without a gradient few rows of x take
    one launch, which rounds once where the ops round each.
    """
    if not isinstance(w, PackedTensor):
        raise TypeError(
            f"packed_linear: expected a PackedTensor as w, got {type(w).__name__}; write packed.quantize(w, 'Q8_0')"
        )
    if not x.ndim or x.shape[-1] != w.shape[1]:
        raise ShapeError(f"packed_linear: expected x of shape (..., {w.shape[1]}), got {tuple(x.shape)}")
    if gate and gate not in _GATES:
        raise ArgumentError(f"packed_linear: expected silu or gelu as gate, got {gate!r}")
    flat = x if x.ndim == 2 else reshape(x, (int(np.prod(x.shape[:-1])), w.shape[1]))
    shape = (*x.shape[:-1], w.shape[0] // 2 if gate else w.shape[0])
    given = {name: value for name, value in zip(_EXTRAS, (norm, bias, residual)) if value is not None}
    is_recorded = state.enabled and requires_grad((x, *given.values()))
    if (given or gate) and not is_recorded and 0 < flat.shape[0] <= _FUSED_ROWS:
        if residual is not None:
            given["residual"] = reshape(residual, (flat.shape[0], shape[-1]))
        fused = packed_fused(flat, *w.parts, *given.values(), format=w.format, extras=tuple(given), eps=eps, gate=gate)
        return reshape(fused, shape)  # type: ignore[no-any-return]
    flat = flat if norm is None else rms_norm(flat, (w.shape[1],), norm, eps)
    y = packed_product(flat, *w.parts, format=w.format)
    y = y if x.ndim == 2 else reshape(y, (*shape[:-1], w.shape[0]))
    return _finished(y, gate, bias, residual)
