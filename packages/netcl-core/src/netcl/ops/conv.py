"""Convolutions in one, two and three dimensions, their two gradients as separate ops, and unfolding into columns.

The gradients of ``conv2d`` are ``conv2d_grad_input`` and ``conv2d_grad_weight``; their gradients are again these three
ops, so derivatives of any order exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from netcl.core.engine.epilogue import added, run_alone
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.expr import Expr, apply
from netcl.core.ops_table.dispatch import Cases, Domain, set_shape
from netcl.core.process.naming import refuse
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.shape import permute, reshape
from netcl.ops.table import OpFunction, composite, computed, engine_of, expression, floating
from netcl.ops.windows import output_sizes, paddings, per_axis

ALGORITHMS = ("naive", "im2col", "implicit_gemm", "winograd", "tiled_local")
LAYOUT = {1: "L", 2: "HW", 3: "DHW"}


def _reference(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Returns the direct convolution in float64: a sum over the taps of the kernel."""
    n, kernel = x.ndim - 2, weight.shape[2:]
    steps, dilations = per_axis("conv", "stride", stride, n), per_axis("conv", "dilation", dilation, n)
    pads = paddings("conv", padding, kernel, steps, dilations)
    sizes = output_sizes("conv", x.shape[2:], kernel, steps, pads, dilations)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    c, f = weight.shape[1], weight.shape[0] // groups
    for tap in np.ndindex(*kernel):
        window = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilations, sizes, steps))
        for g in range(groups):
            taken = (slice(None), slice(g * c, (g + 1) * c), *window)
            weights = (slice(g * f, (g + 1) * f), slice(None), *tap)
            out[:, g * f : (g + 1) * f] += np.einsum("nc...,fc->nf...", padded[taken], weight[weights])
    return out if bias is None else out + bias.reshape(-1, *(1,) * n)


_ATTRIBUTES: dict[int, tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...]] = {
    1: (
        ((2, 3, 9), (4, 3, 3), {"padding": 1}),
        ((1, 4, 11), (6, 2, 2), {"stride": 2, "padding": ((1, 0),), "groups": 2}),
        ((2, 2, 10), (2, 2, 3), {"padding": "same", "dilation": 2}),
    ),
    2: (
        ((2, 3, 6, 7), (4, 3, 3, 3), {"padding": 1}),
        ((1, 4, 7, 5), (6, 2, 3, 2), {"stride": (2, 1), "padding": (1, 0), "groups": 2}),
        ((2, 2, 7, 7), (3, 2, 2, 3), {"padding": "same", "dilation": (2, 1)}),
        ((3, 5, 4, 4), (7, 5, 1, 1), {}),
        ((0, 2, 5, 5), (3, 2, 3, 3), {}),
    ),
    3: (((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),),
}


def _conv_cases(n: int) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for x, weight, attributes in _ATTRIBUTES[n]:
            yield (rng.uniform(-1, 1, x), rng.uniform(-1, 1, weight), rng.uniform(-1, 1, weight[0])), attributes
            yield (rng.uniform(-1, 1, x), rng.uniform(-1, 1, weight)), attributes

    return cases


def geometry_of(op: str, n: int, weight: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    """Returns strides, paddings and dilations per axis."""
    steps, dilations = per_axis(op, "stride", stride, n), per_axis(op, "dilation", dilation, n)
    return {"stride": steps, "padding": paddings(op, padding, weight[2:], steps, dilations), "dilation": dilations}


class _Windows(NamedTuple):
    """The strides, paddings and dilations of a convolution per axis, and the sizes of its result."""

    geometry: dict[str, Any]
    sizes: tuple[int, ...]


def _windows_of(
    op: str, n: int, x: tuple[int, ...], weight: tuple[int, ...], stride: Any, padding: Any, dilation: Any
) -> _Windows:
    """Returns the windows of a call, looked up if its options are integers or tuples of them."""
    if all(map(_is_plain, (stride, padding, dilation))):
        return _known_windows(op, n, x, weight, stride, padding, dilation)
    return _known_windows.__wrapped__(op, n, x, weight, stride, padding, dilation)


def _is_plain(value: Any) -> bool:
    # A tuple of other numbers may be equal to one of integers, and is refused.
    return type(value) is int or (type(value) is tuple and all(type(item) is int for item in value))


@lru_cache(maxsize=1024)
def _known_windows(
    op: str, n: int, x: tuple[int, ...], weight: tuple[int, ...], stride: Any, padding: Any, dilation: Any
) -> _Windows:
    geometry = geometry_of(op, n, weight, stride, padding, dilation)
    return _Windows(geometry, output_sizes(op, x[2:], weight[2:], **geometry))


def _check(op: str, n: int, x: Sequence[int], weight: Sequence[int], groups: int, bias: Tensor | None = None) -> None:
    """Raises ShapeError unless x (N, C, *S), weight (F, C / groups, *K) and bias (F,) match."""
    fits = len(x) == len(weight) == n + 2 and groups > 0 and x[1] == weight[1] * groups and weight[0] % groups == 0
    if not fits or (bias is not None and bias.shape != (weight[0],)):
        bias_text = "" if bias is None else f", bias {bias.shape}"
        raise ShapeError(
            f"{op}: x {tuple(x)}, weight {tuple(weight)}{bias_text}, groups {groups}; expected x (N, C, "
            f"{', '.join(LAYOUT[n])}) or without N, weight "
            "(F, C / groups, kernel...), bias (F,), F a multiple of groups"
        )
    if 0 in weight[2:]:
        raise ShapeError(f"{op}: the kernel of weight {tuple(weight)} has no taps")


def _forward(
    op: str,
    n: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    algo: str | None,
) -> Tensor:
    engine = engine_of(op, x, weight, bias)
    if algo is not None and algo not in ALGORITHMS:
        raise ArgumentError(f"{op}: expected one of {', '.join(ALGORITHMS)} as algo, got {algo!r}")
    if x.ndim == n + 1:  # without a batch
        batch = x._alias((1, *x.shape))
        single = _forward(op, n, batch, weight, bias, stride, padding, dilation, groups, algo)
        set_shape(single, single.shape[1:])
        return single
    _check(op, n, x.shape, weight.shape, groups, bias)
    geometry, sizes = _windows_of(op, n, x.shape, weight.shape, stride, padding, dilation)
    if x.dtype != weight.dtype:
        refuse(f"{op}: expected x and weight of one dtype, got {x.dtype} and {weight.dtype}; write x.to(dtype)")
    x, weight, bias = floating(op, x, weight, bias)
    final = (x.shape[0], weight.shape[0], *sizes)
    epilogue = None if bias is None else added(bias._alias((bias.shape[0],) + (1,) * n))
    if not (0 in final or 0 in x.shape or (algo == "im2col" and groups == 1)):
        return engine.conv("forward", x, weight, groups=groups, algo=algo, epilogue=epilogue, **geometry)  # type: ignore[no-any-return]
    if algo == "im2col" and 0 not in final and 0 not in x.shape:
        result = _unfolded(engine, x, weight, final, geometry)
    else:
        result = engine.zeros(final, x.dtype)
    if epilogue is not None and result.size:
        run_alone(engine, epilogue, result)
    return result


def _unfolded(engine: Any, x: Tensor, weight: Tensor, final: Sequence[int], geometry: dict[str, Any]) -> Tensor:
    """Returns the convolution as a product of the unfolded image and the weights."""
    columns = engine.window("im2col", x, kernel=weight.shape[2:], **geometry)
    rows = weight._alias((weight.shape[0], weight.size // weight.shape[0]))
    product = engine.matmul(columns, rows, transpose_b=True)
    batch, filters, places = final[0], final[1], math.prod(final[2:])
    result: Tensor = engine.empty(tuple(final), x.dtype)
    engine.copy(
        product,
        result,
        shape=(batch, filters, places),
        source_strides=(places * filters, 1, filters),
        source_offset=0,
        out_strides=(filters * places, places, 1),
        out_offset=0,
    )
    return result


def _gradient(op: str, kind: str, n: int, a: Any, b: Any, shape: Any, geometry: Any, groups: int) -> Tensor:
    """Returns the convolution with output shape ``shape``: of a gradient with a weight, or of x with a gradient."""
    engine = engine_of(op, a, b)
    wanted = tuple(int(size) for size in shape)
    x, weight = (wanted, b.shape) if kind == "grad_input" else (a.shape, wanted)
    grad = a.shape if kind == "grad_input" else b.shape
    _check(op, n, x, weight, groups)
    windows, sizes = _windows_of(op, n, x, weight, *geometry)
    expected = (x[0], weight[0], *sizes)
    if grad != expected:
        raise ShapeError(f"{op}: grad_output {grad}, expected {expected} for x {x} and weight {weight}")
    a, b = floating(op, a, b)
    if 0 in a.shape or 0 in b.shape or 0 in wanted:
        return engine.zeros(wanted, a.dtype)  # type: ignore[no-any-return]
    return engine.conv(kind, a, b, groups=groups, shape=wanted, **windows)  # type: ignore[no-any-return]


# By linearity the gradients are checked with the convolution itself: each case is one of conv's, with the adjoint
# written out.
def _adjoint(kind: str) -> Callable[..., Any]:
    def reference(a: Any, b: Any, shape: Any, **geometry: Any) -> Any:
        out = np.zeros(shape)
        for place in np.ndindex(*out.shape):
            unit = np.zeros(shape)
            unit[place] = 1.0
            forward = _reference(unit, b, **geometry) if kind == "grad_input" else _reference(a, unit, **geometry)
            out[place] = np.sum(forward * (a if kind == "grad_input" else b))
        return out

    return reference


_SMALL: dict[int, tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...]] = {
    1: (((2, 2, 7), (4, 1, 3), {"stride": 2, "padding": 1, "groups": 2}),),
    2: (
        ((2, 2, 5, 4), (3, 2, 3, 2), {"padding": (1, 0)}),
        ((1, 2, 6, 5), (2, 1, 2, 3), {"stride": (2, 1), "dilation": (2, 1), "groups": 2}),
    ),
    3: (((1, 1, 3, 4, 3), (2, 1, 2, 2, 2), {"stride": (1, 2, 1), "padding": (0, 1, 0)}),),
}


def _gradient_cases(n: int, kind: str) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for x, weight, attributes in _SMALL[n]:
            grad = rng.uniform(-1, 1, _reference(np.zeros(x), np.zeros(weight), **attributes).shape)
            if kind == "grad_input":
                yield (grad, rng.uniform(-1, 1, weight)), {"shape": x, **attributes}
            else:
                yield (rng.uniform(-1, 1, x), grad), {"shape": weight, **attributes}

    return cases


_CONV_DOC = """Returns the convolution of x (N, C, {axes}) or (C, {axes}), weight (F, C / groups, kernel...), bias (F,).

out[n, f, o] = bias[f] + sum over c, k of x[n, c, o * stride + k * dilation - padding] * weight[f, c, k]: not flipped,
as in PyTorch. ``padding`` is an int, one int or (before, after) pair per axis, "valid" or "same"; ``algo`` is a
hint, and all of them give the same numbers up to rounding: naive (each output separately), im2col (the image is
unfolded, then one matrix product; groups 1), implicit_gemm (a matrix product that reads the image in place),
tiled_local (implicit GEMM through local memory); winograd means the device's own choice.
Raises ShapeError, which names the shapes."""
_INPUT_DOC = (
    "Returns the gradient of conv{n}d by x, of shape ``shape``, from grad_output (N, F, ...) and weight; linear in "
    "both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."
)
_WEIGHT_DOC = (
    "Returns the gradient of conv{n}d by weight, of shape ``shape``, from x and grad_output (N, F, ...); linear in "
    "both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."
)


def _convolution(n: int) -> tuple[OpFunction, OpFunction, OpFunction]:
    """Makes conv{n}d and its two gradients."""
    name = f"conv{n}d"

    def forward(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        algo: str | None = None,
    ) -> Tensor:
        return _forward(name, n, x, weight, bias, stride, padding, dilation, groups, algo)

    def grad_input(
        grad_output: Tensor,
        weight: Tensor,
        shape: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        geometry = (stride, padding, dilation)
        return _gradient(f"{name}_grad_input", "grad_input", n, grad_output, weight, shape, geometry, groups)

    def grad_weight(
        x: Tensor,
        grad_output: Tensor,
        shape: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        return _gradient(
            f"{name}_grad_weight", "grad_weight", n, x, grad_output, shape, (stride, padding, dilation), groups
        )

    def row(suffix: str, function: Any, doc: str, domain: Domain) -> OpFunction:
        return computed(name=name + suffix, amp="half", domain=domain, doc=doc)(function)

    def adjoint(kind: str) -> Domain:
        return compared(_gradient_cases(n, kind), _adjoint(kind))

    return (
        row(
            "",
            forward,
            _CONV_DOC.format(axes=", ".join(LAYOUT[n])),
            compared(_conv_cases(n), _reference),
        ),
        row("_grad_input", grad_input, _INPUT_DOC.format(n=n), adjoint("grad_input")),
        row("_grad_weight", grad_weight, _WEIGHT_DOC.format(n=n), adjoint("grad_weight")),
    )


conv1d_grad_weight: OpFunction
conv1d_grad_input: OpFunction
conv1d: OpFunction
conv1d, conv1d_grad_input, conv1d_grad_weight = _convolution(1)
conv2d_grad_weight: OpFunction
conv2d_grad_input: OpFunction
conv2d: OpFunction
conv2d, conv2d_grad_input, conv2d_grad_weight = _convolution(2)
conv3d_grad_weight: OpFunction
conv3d_grad_input: OpFunction
conv3d: OpFunction
conv3d, conv3d_grad_input, conv3d_grad_weight = _convolution(3)


# -- built of these ----------------------------------------------------------------------------------------------------


def _depthwise_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (2, 3, 5, 5)), rng.uniform(-1, 1, (6, 1, 3, 3)), rng.uniform(-1, 1, 6)), {"padding": 1}


def _depthwise_reference(x: Any, weight: Any, bias: Any = None, **geometry: Any) -> Any:
    return _reference(x, weight, bias, groups=x.shape[1], **geometry)


@composite(amp="half", domain=compared(_depthwise_cases, _depthwise_reference))
def depthwise_conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Tensor:
    """Returns conv2d with one group per channel: x (N, C, H, W), weight (C * multiplier, 1, kH, kW), bias (C *
    multiplier,).

    ``stride``, ``padding`` and ``dilation`` are conv2d's; raises ShapeError if x has another rank.
    """
    if x.ndim not in (3, 4):
        raise ShapeError(f"depthwise_conv2d: x {x.shape}; expected (N, C, H, W) or (C, H, W)")
    return conv2d(x, weight, bias, stride, padding, dilation, groups=x.shape[-3])  # type: ignore[no-any-return]


# -- folding batch normalization into the convolution before it --------------------------------------------------------


def _fold_cases(rng: np.random.Generator) -> Cases:
    yield tuple(rng.uniform(0.5, 2, shape) for shape in ((4, 2, 3), (4, 1, 1), (4, 1, 1))), {"eps": 0.1}


def _shift_cases(rng: np.random.Generator) -> Cases:
    yield tuple(rng.uniform(0.5, 2, 4) for _ in range(5)), {"eps": 0.1}


@expression(domain=compared(_fold_cases, lambda w, g, v, eps: w * g / np.sqrt(v + eps)))
def fold_scale(weight: Expr, gamma: Expr, var: Expr, eps: float = 1e-5) -> Expr:
    """Returns weight * gamma / sqrt(var + eps)."""
    return weight * gamma * apply("rsqrt", var + eps)


@expression(domain=compared(_shift_cases, lambda b, m, v, g, beta, eps: (b - m) * g / np.sqrt(v + eps) + beta))
def fold_shift(bias: Expr, mean: Expr, var: Expr, gamma: Expr, beta: Expr, eps: float = 1e-5) -> Expr:
    """Returns (bias - mean) * gamma / sqrt(var + eps) + beta."""
    return (bias - mean) * gamma * apply("rsqrt", var + eps) + beta


def fold_bn_params(
    weight: Tensor,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    bn_weight: Tensor | None = None,
    bn_bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """Returns (weight, bias) of a convolution that includes the batch normalization after it (for inference).

    weight' = weight * gamma / sqrt(var + eps) per output channel, bias' = (bias - mean) * gamma / sqrt(var + eps) +
    beta. weight (F, ...), all others (F,); None means bias 0, gamma 1, beta 0.
    """
    channels = (weight.shape[0],) if weight.ndim > 1 else ()
    for name, value in (
        ("bias", bias),
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("bn_weight", bn_weight),
        ("bn_bias", bn_bias),
    ):
        if value is not None and value.shape != channels:
            raise ShapeError(
                f"fold_bn_params: {name} {value.shape} for weight {weight.shape}; expected {channels}", parameter=name
            )
    wide = channels + (1,) * (weight.ndim - 1)
    shift = fold_shift(
        0.0 if bias is None else bias,
        running_mean,
        running_var,
        1.0 if bn_weight is None else bn_weight,
        0.0 if bn_bias is None else bn_bias,
        eps=eps,
    )
    gamma = 1.0 if bn_weight is None else reshape(bn_weight, wide)
    return fold_scale(weight, gamma, reshape(running_var, wide), eps=eps), shift


def _tbc_cases(rng: np.random.Generator) -> Cases:
    operands = rng.uniform(-1, 1, (6, 2, 3)), rng.uniform(-1, 1, (3, 3, 4)), rng.uniform(-1, 1, 4)
    yield operands, {}
    yield operands, {"pad": 1}


def _tbc_reference(x: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    padded = np.pad(x, ((pad, pad), (0, 0), (0, 0)))
    steps = padded.shape[0] - weight.shape[0] + 1
    return bias + sum(padded[k : k + steps] @ weight[k] for k in range(weight.shape[0]))


@composite(amp="half", domain=compared(_tbc_cases, _tbc_reference))
def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Returns a convolution of sequences, time first: x (T, N, C), weight (K, C, F) and bias (F,) give (T', N, F)."""
    if x.ndim != 3 or weight.ndim != 3 or x.shape[2] != weight.shape[1] or bias.shape != weight.shape[2:]:
        raise ShapeError(
            f"conv_tbc: x {x.shape}, weight {weight.shape}, bias {bias.shape}; expected (T, N, C), (K, C, F) and (F,)"
        )
    result = conv1d(permute(x, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, padding=pad)
    return permute(result, (2, 0, 1))  # type: ignore[no-any-return]
