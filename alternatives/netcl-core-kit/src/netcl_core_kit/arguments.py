"""Arguments of windows and borders by axis, and attention made of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl_core_kit.dispatch import call
from netcl_core_kit.dtypes import is_floating
from netcl_core_kit.errors import DTypeError
from netcl_core_kit.layout import Shape, broadcast_shapes
from netcl_core_kit.shapes import exactly

__all__ = ["attend", "check_attention", "check_recurrence", "padding_of", "pads_of", "sections_of", "several"]


def several(value: Any, rank: int) -> tuple[int, ...]:
    if isinstance(value, (int, np.integer)):
        return (int(value),) * rank
    found = tuple(int(one) for one in value)
    return found * rank if len(found) == 1 else found


def padding_of(
    padding: Any, kernel: Any, stride: tuple[int, ...], dilation: tuple[int, ...], size: Any
) -> list[tuple[int, int]]:
    """The padding (before, after) of each axis."""
    if padding == "valid":
        return [(0, 0)] * len(stride)
    if padding == "same":
        found = []
        for n, k, s, d in zip(size, kernel, stride, dilation):
            whole = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            found.append((whole // 2, whole - whole // 2))
        return found
    if isinstance(padding, str):
        raise ValueError(f"padding is a number, valid or same, not {padding!r}")
    if isinstance(padding, (int, np.integer)):
        return [(int(padding), int(padding))] * len(stride)
    pairs = [(int(p), int(p)) if isinstance(p, (int, np.integer)) else (int(p[0]), int(p[1])) for p in padding]
    return pairs * len(stride) if len(pairs) == 1 else pairs


def sections_of(output_size: Any, x: Any, rank: int) -> tuple[int, ...]:
    given = (
        (output_size,) * rank
        if isinstance(output_size, (int, np.integer)) or output_size is None
        else tuple(output_size)
    )
    given = given * rank if len(given) == 1 else given
    exactly("adaptive pool", len(given) == rank, f"output_size {output_size} for {rank} axes")
    return tuple(n if size is None else int(size) for size, n in zip(given, x.shape[-rank:]))


def pads_of(pads: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(pads, (int, np.integer)):
        return [(int(pads), int(pads))] * rank
    given = list(pads)
    if given and isinstance(given[0], (list, tuple)):
        exactly("pad", len(given) == rank, f"{len(given)} pairs for {rank} axes")
        return [(int(a), int(b)) for a, b in given]
    exactly("pad", len(given) % 2 == 0 and len(given) <= 2 * rank, f"pads {given} for {rank} axes")
    pairs = [(int(given[place]), int(given[place + 1])) for place in range(0, len(given), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def attend(
    q: Any, k: Any, v: Any, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention takes either a mask or is_causal")
    if not dropout_p:
        return call("attention", q, k, v, mask, is_causal, scale, enable_gqa)
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (call("repeat", one, q.shape[-3] // k.shape[-3], -3) for one in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = call("attention_weights", call("matmul", q, k, transpose_b=True), mask, is_causal, scale)
    return call("matmul", call("dropout", weights, dropout_p), v)


def check_attention(q: Any, k: Any, v: Any, mask: Any) -> None:
    """ShapeError or DTypeError unless operands of attention, each its dtype and shape (a mask may be None), fit."""
    name = "scaled_dot_product_attention"
    shapes = [one[1] for one in (q, k, v)]
    ranks = min(map(len, shapes)) >= 2
    fits = ranks and shapes[0][-1] == shapes[1][-1] and shapes[1][-2] == shapes[2][-2]
    exactly(name, fits, f"q {shapes[0]}, k {shapes[1]}, v {shapes[2]} do not fit")
    broadcast_shapes([one[:-2] for one in shapes], name)
    if not (is_floating(q[0]) and q[0] == k[0] == v[0]):
        raise DTypeError(f"{name}: q, k and v have dtypes {q[0]}, {k[0]} and {v[0]}")
    if mask is not None:
        if mask[0] != "bool" and not is_floating(mask[0]):
            raise DTypeError(f"{name}: a mask is bool or floating, not {mask[0]}")
        scores = (*shapes[0][:-1], shapes[1][-2])
        exactly(name, broadcast_shapes([scores, mask[1]], name) == scores, f"mask {mask[1]}, scores {scores}")


def check_recurrence(kind: str, x: Shape, weight: Shape, state: Shape, bias: Shape | None, cell: Shape | None) -> None:
    """ValueError for an unknown kind of recurrence, ShapeError unless the shapes of its operands fit."""
    if kind not in ("lstm", "gru", "tanh", "relu"):
        raise ValueError(f"recurrence: expected kind lstm, gru, tanh or relu, got {kind!r}")
    gates, number = {"lstm": 4, "gru": 3}.get(kind, 1), weight[-1]
    fits = len(x) == 3 and weight == (gates * number, number) and x[2] == gates * number
    exactly("recurrence", fits, f"kind {kind!r} takes (T, N, {gates} H) and ({gates} H, H), not {x}, {weight}")
    one_step = (x[1], number)
    for name, given, wanted in (
        ("state", state, one_step),
        ("bias", bias, (gates * number,)),
        ("cell", cell, one_step),
    ):
        exactly("recurrence", given is None or given == wanted, f"a {name} of {given}, expected {wanted}")
    if kind == "lstm" and cell is None:
        raise ValueError("recurrence: an LSTM has a cell")
