"""Transposed convolutions: the gradients of convolutions by their input, as separate ops, with a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.conv import LAYOUT, conv1d_grad_input, conv2d_grad_input, conv3d_grad_input, geometry_of
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add
from netcl.ops.pad import pad
from netcl.ops.shape import reshape
from netcl.ops.table import OpFunction, composite, engine_of
from netcl.ops.windows import per_axis, span


def _transposed(
    n: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Tensor:
    op = f"conv_transpose{n}d"
    engine_of(op, x, weight, bias)
    if x.ndim == n + 1:  # without a batch
        batch = reshape(x, (1, *x.shape))
        y = _transposed(n, batch, weight, bias, stride, padding, output_padding, groups, dilation)
        return reshape(y, y.shape[1:])  # type: ignore[no-any-return]
    if x.ndim != n + 2 or weight.ndim != n + 2 or groups < 1 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"{op}: x {x.shape}, weight {weight.shape}, groups {groups}; expected x (N, C, "
            f"{', '.join(LAYOUT[n])}) or without N, weight "
            "(C, F / groups, kernel...)"
        )
    geometry = geometry_of(op, n, weight.shape, stride, padding, dilation)
    extra = per_axis(op, "output_padding", output_padding, n, 0)
    rows = zip(x.shape[2:], weight.shape[2:], geometry["stride"], geometry["padding"], geometry["dilation"], extra)
    sizes = tuple((size - 1) * s - low - high + span(k, d) + e for size, k, s, (low, high), d, e in rows)
    if any(e >= max(s, d) for e, s, d in zip(extra, geometry["stride"], geometry["dilation"])) or min(sizes) < 0:
        raise ShapeError(
            f"{op}: expected output_padding below stride or dilation and output sizes from 0, got {extra} and {sizes}"
        )
    channels = weight.shape[1] * groups
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"{op}: bias {bias.shape}, expected ({channels},)", parameter="bias")
    if any(e >= s for e, s in zip(extra, geometry["stride"])):  # longer than that of any gradient: a part of the whole
        pads, geometry = geometry["padding"], {**geometry, "padding": ((0, 0),) * n}
        rows = zip(x.shape[2:], weight.shape[2:], geometry["stride"], geometry["dilation"])
        whole = tuple((size - 1) * s + span(k, d) for size, k, s, d in rows)
        y = _GRAD_INPUT[n](x, weight, (x.shape[0], channels, *whole), groups=groups, **geometry)
        borders = [(-low, size + low - full) for (low, _), size, full in zip(pads, sizes, whole)]
        y = pad(y, [(0, 0), (0, 0), *borders])
    else:
        y = _GRAD_INPUT[n](x, weight, (x.shape[0], channels, *sizes), groups=groups, **geometry)
    return y if bias is None else add(y, reshape(bias, (channels,) + (1,) * n))  # type: ignore[no-any-return]


_GRAD_INPUT = {1: conv1d_grad_input, 2: conv2d_grad_input, 3: conv3d_grad_input}
_TRANSPOSED_CASES: dict[int, Any] = {
    1: ((2, 4, 5), (4, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    2: ((2, 4, 3, 4), (4, 3, 3, 2), {"stride": (2, 1), "groups": 2}),
    3: ((1, 2, 2, 3, 2), (2, 1, 2, 2, 2), {"dilation": 2}),
}


def _transposed_reference(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Adds every input element's multiple of the kernel to the output."""
    n, f = x.ndim - 2, weight.shape[1]
    s, p, e, d = (per_axis("", "", v, n, 0) for v in (stride, padding, output_padding, dilation))
    full = [(size - 1) * s[i] + span(weight.shape[2 + i], d[i]) + e[i] for i, size in enumerate(x.shape[2:])]
    out = np.zeros((x.shape[0], f * groups, *full))
    c = x.shape[1] // groups
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*weight.shape[2:]):
            at = tuple(i * step + t * dil for i, step, t, dil in zip(place, s, tap, d))
            for g in range(groups):
                channels = slice(g * c, (g + 1) * c)
                taken, weights = (slice(None), channels, *place), (channels, slice(None), *tap)
                target = (slice(None), slice(g * f, (g + 1) * f), *at)
                out[target] += x[taken] @ weight[weights]
    inside = tuple([slice(None)] * 2 + [slice(low, size - low) for low, size in zip(p, full)])
    return out[inside] + bias.reshape(-1, *(1,) * n)


def _conv_transpose(n: int) -> OpFunction:
    def transposed(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        return _transposed(n, x, weight, bias, stride, padding, output_padding, groups, dilation)

    def cases(rng: np.random.Generator) -> Cases:
        x, weight, attributes = _TRANSPOSED_CASES[n]
        channels = weight[1] * attributes.get("groups", 1)
        yield (rng.uniform(-1, 1, x), rng.uniform(-1, 1, weight), rng.uniform(-1, 1, channels)), attributes

    doc = f"""Returns the transposed convolution: the gradient of conv{n}d by its input, as a separate op.

    x (N, C, {", ".join(LAYOUT[n])}), or without N, weight (C, F / groups, kernel...), bias (F,). Output size:
    (size - 1) * stride - padding (both sides) + dilation * (kernel - 1) + output_padding + 1."""
    domain = compared(cases, _transposed_reference)
    return composite(name=f"conv_transpose{n}d", amp="half", doc=doc, domain=domain)(transposed)


conv_transpose3d: OpFunction
conv_transpose2d: OpFunction
conv_transpose1d: OpFunction
conv_transpose1d, conv_transpose2d, conv_transpose3d = _conv_transpose(1), _conv_transpose(2), _conv_transpose(3)
