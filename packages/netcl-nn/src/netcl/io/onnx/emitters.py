"""Emits ops of the table as ONNX nodes, if they are not expressions or ONNX has one node for the whole op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from netcl.core.errors import UnsupportedError
from netcl.core.layout import normalize_axes
from netcl.io.onnx.graph import Graph, Pair, Value
from netcl.io.onnx.tracing import TracedOp

Emitter = Callable[[Graph, TracedOp], Sequence[Value]]


def _operand(graph: Graph, step: TracedOp, name: str) -> Value:
    return graph.value(*step.both(name))


def _optional(graph: Graph, step: TracedOp, name: str) -> Value | None:
    first, second = step.both(name)
    return None if first is None else graph.value(first, second)


def _per_axis(value: Any, rank: int) -> list[int]:
    return [int(v) for v in value] if isinstance(value, (tuple, list)) else [int(value)] * rank


def _pads(step: TracedOp, value: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Returns ONNX's pads, first all "before" and then all "after" values, from netcl's ``padding``."""
    rank = len(kernel)
    if value == "valid":
        return [0] * (2 * rank)
    if value == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation)]
        return [total // 2 for total in totals] + [total - total // 2 for total in totals]
    if isinstance(value, (tuple, list)) and any(isinstance(v, (tuple, list)) for v in value):
        pairs = list(value) * rank if len(value) == 1 else list(value)
        return [int(low) for low, _ in pairs] + [int(high) for _, high in pairs]
    return _per_axis(value, rank) * 2


# -- one node each -----------------------------------------------------------------------------------------------------


def _unary(op: str, **names: str) -> Emitter:
    """Emits a node of one operand; ``names`` maps ONNX's attributes to parameters."""

    def emit(graph: Graph, step: TracedOp) -> Sequence[Value]:
        x = _operand(graph, step, "x")
        attributes: dict[str, Any] = {attribute: float(step[parameter]) for attribute, parameter in names.items()}
        return [graph.add(op, [x], step.shapes, **attributes)]

    return emit


def _softmax(op: str) -> Emitter:
    def emit(graph: Graph, step: TracedOp) -> Sequence[Value]:
        x = _operand(graph, step, "x")
        axes = normalize_axes(step["axis"], x.rank, step.name)
        if len(axes) != 1:
            raise UnsupportedError(f"{step.name} over several axes cannot be exported", op=step.name)
        return [graph.add(op, [x], step.shapes, axis=axes[0])]

    return emit


def _mean(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    axes = normalize_axes(step["axis"], x.rank, step.name)
    return [graph.reshape(graph.reduce("Mean", x, axes), step.shapes)] if axes else [x]


def _argument(op: str) -> Emitter:
    def emit(graph: Graph, step: TracedOp) -> Sequence[Value]:
        x = _operand(graph, step, "x")
        (axis,) = normalize_axes(step["axis"], x.rank, step.name)
        return [graph.add(op, [x], step.shapes, "int64", axis=axis, keepdims=int(step["keepdims"]))]

    return emit


def _gelu(graph: Graph, step: TracedOp) -> Sequence[Value]:
    return [graph.add("Gelu", [_operand(graph, step, "x")], step.shapes, approximate=step["approximate"])]


def _batch_norm(graph: Graph, step: TracedOp) -> Sequence[Value]:
    """Emits BatchNormalization; ONNX requires weight and bias, and all parameters as vectors."""
    x = _operand(graph, step, "x")
    channels = x.shapes[0][1]
    parts = []
    for name, default in (("weight", 1.0), ("bias", 0.0), ("mean", None), ("var", None)):
        first, second = step.both(name)
        if first is None:
            value = graph.constant(np.full(channels, default), x.dtype)
        else:  # under its own name, as it was before it was reshaped to the channels
            value = graph.value(*graph.sources.get(id(first), (first, second)))
        parts.append(graph.reshape(value, ((channels,), (channels,))))
    return [graph.add("BatchNormalization", [x, *parts], step.shapes, epsilon=float(step["eps"]))]


def _layer_norm(graph: Graph, step: TracedOp) -> Sequence[Value]:
    """Emits LayerNormalization over the last axes."""
    x = _operand(graph, step, "x")
    axes = normalize_axes(step["axes"], x.rank, step.name)
    weight, bias = _optional(graph, step, "weight"), _optional(graph, step, "bias")
    shape = x.shapes[0][axes[0] :]
    if weight is None:
        weight = graph.constant(np.ones(shape), x.dtype)
    parts = [x, weight, bias]
    return [graph.add("LayerNormalization", parts, step.shapes, axis=axes[0], epsilon=float(step["eps"]))]


# -- shape -------------------------------------------------------------------------------------------------------------


def _reshape(graph: Graph, step: TracedOp) -> Sequence[Value]:
    return [graph.reshape(_operand(graph, step, "x"), step.shapes)]


def _expand(graph: Graph, step: TracedOp) -> Sequence[Value]:
    return [graph.expand(_operand(graph, step, "x"), step.shapes)]


def _permute(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    axes = [axis % x.rank for axis in step["axes"]]
    return [graph.add("Transpose", [x], step.shapes, perm=axes)]


def _concatenate(graph: Graph, step: TracedOp) -> Sequence[Value]:
    first, second = step.both("tensors")
    values = [graph.cast(graph.value(a, b), step.first.results[0].dtype) for a, b in zip(first, second)]
    return [graph.add("Concat", values, step.shapes, axis=step["axis"] % len(step.shapes[0]))]


def _slice(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    stride = step["steps"]
    starts = step.both("starts")
    # The exclusive end; the value before the first element is below every index.
    ends = tuple(
        [start + step_ * size if start + step_ * size >= 0 else -(2**31) for start, step_, size in zip(s, stride, n)]
        for s, n in zip(starts, step.both("sizes"))
    )
    bounds = [graph.sizes(starts), graph.sizes((ends[0], ends[1]))]
    parts = [x, *bounds, graph.integers(range(x.rank)), graph.integers(stride)]
    sizes = step.both("sizes")
    block = graph.add("Slice", parts, sizes)
    return [block if tuple(map(tuple, sizes)) == tuple(map(tuple, step.shapes)) else graph.reshape(block, step.shapes)]


def _place(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    if any(stride != 1 for stride in step["steps"]):
        raise UnsupportedError("elements placed at distances cannot be exported", op=step.name)
    pads = []
    for starts, call in zip(step.both("starts"), (step.first, step.second)):
        extents, result = call.arguments["x"].shape, call.results[0].shape
        pads.append([*starts, *(size - start - n for size, start, n in zip(result, starts, extents))])
    value = graph.constant(float(step["value"]), x.dtype)
    return [graph.add("Pad", [x, graph.sizes((pads[0], pads[1])), value], step.shapes)]


def _border(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    pads = [side for sides in zip(*step["pads"]) for side in sides]
    mode = {"reflect": "reflect", "replicate": "edge"}[step["mode"]]
    return [graph.add("Pad", [x, graph.sizes((pads, pads))], step.shapes, mode=mode)]


# -- contractions ------------------------------------------------------------------------------------------------------


def _transposed(graph: Graph, value: Value) -> Value:
    """Transposes the last two axes."""
    perm = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
    first, second = (tuple(shape[axis] for axis in perm) for shape in value.shapes)
    return graph.add("Transpose", [value], (first, second), perm=perm)


def _matmul(graph: Graph, step: TracedOp) -> Sequence[Value]:
    operands = [_operand(graph, step, name) for name in ("a", "b")]
    turned = [
        _transposed(graph, value) if step[f"transpose_{name}"] else value for name, value in zip(("a", "b"), operands)
    ]
    return [graph.add("MatMul", turned, step.shapes)]


def _linear(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x, weight, bias = _operand(graph, step, "x"), _operand(graph, step, "weight"), _optional(graph, step, "bias")
    if x.rank == 2:
        return [graph.add("Gemm", [x, weight, bias], step.shapes, transB=1)]
    product = graph.add("MatMul", [x, _transposed(graph, weight)], step.shapes)
    return [product if bias is None else graph.add("Add", [product, bias], step.shapes)]


def _conv(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x, weight, bias = _operand(graph, step, "x"), _operand(graph, step, "weight"), _optional(graph, step, "bias")
    kernel = weight.shapes[0][2:]
    dilations = _per_axis(step["dilation"], len(kernel))
    return [
        graph.add(
            "Conv",
            [x, weight, bias],
            step.shapes,
            kernel_shape=list(kernel),
            strides=_per_axis(step["stride"], len(kernel)),
            pads=_pads(step, step["padding"], kernel, dilations),
            dilations=dilations,
            group=int(step["groups"]),
        )
    ]


def _conv_transpose(graph: Graph, step: TracedOp) -> Sequence[Value]:
    """Emits ConvTranspose, the gradient of a convolution with respect to its input."""
    grad, weight = _operand(graph, step, "grad_output"), _operand(graph, step, "weight")
    kernel = weight.shapes[0][2:]
    rank = len(kernel)
    strides, dilations = _per_axis(step["stride"], rank), _per_axis(step["dilation"], rank)
    pads = _pads(step, step["padding"], kernel, dilations)
    extra = [
        size - ((n - 1) * stride - pads[axis] - pads[rank + axis] + dilation * (k - 1) + 1)
        for axis, (size, n, stride, dilation, k) in enumerate(
            zip(step.shapes[0][2:], grad.shapes[0][2:], strides, dilations, kernel)
        )
    ]
    return [
        graph.add(
            "ConvTranspose",
            [grad, weight],
            step.shapes,
            kernel_shape=list(kernel),
            strides=strides,
            pads=pads,
            dilations=dilations,
            output_padding=extra,
            group=int(step["groups"]),
        )
    ]


# -- windows -----------------------------------------------------------------------------------------------------------


def _window(step: TracedOp, rank: int) -> dict[str, Any]:
    kernel = _per_axis(step["kernel_size"], rank)
    strides = kernel if step["stride"] is None else _per_axis(step["stride"], rank)
    pads = _pads(step, step["padding"], kernel, [1] * rank)
    return {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": int(step["ceil_mode"])}


def _max_pool(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    rank = x.rank - 2
    pooled = graph.add("MaxPool", [x], step.shapes, dilations=_per_axis(step["dilation"], rank), **_window(step, rank))
    # Its second result, the positions, is computed only for unpooling, which cannot be exported.
    return [pooled]


def _avg_pool(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    if step["divisor_override"] is not None:
        raise UnsupportedError("avg_pool with divisor_override cannot be exported", op=step.name)
    count = int(step["count_include_pad"])
    return [graph.add("AveragePool", [x], step.shapes, count_include_pad=count, **_window(step, x.rank - 2))]


def _adaptive(whole: str, pooling: str) -> Emitter:
    def emit(graph: Graph, step: TracedOp) -> Sequence[Value]:
        x = _operand(graph, step, "x")
        sizes, out_sizes = x.shapes[0][2:], step.shapes[0][2:]
        if all(size == 1 for size in out_sizes):
            return [graph.add(whole, [x], step.shapes)]
        if any(size % out for size, out in zip(sizes, out_sizes)):
            raise UnsupportedError(
                f"{step.name} from {sizes} to {out_sizes} has windows of several sizes, which ONNX lacks", op=step.name
            )
        kernel = [size // out for size, out in zip(sizes, out_sizes)]
        return [graph.add(pooling, [x], step.shapes, kernel_shape=kernel, strides=kernel)]

    return emit


def _resample(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    taps = step["taps"]
    modes = set()
    for size, out, (num, start, den) in zip(x.shapes[0][2:], step.shapes[0][2:], step["places"]):
        scale = Fraction(num, den) if den else Fraction(0)
        if num == 0 or (num, start, den) == (size - 1, 0, out - 1):
            modes.add("align_corners")
        elif scale != Fraction(size, out):
            raise UnsupportedError(
                f"interpolate by a factor that {size} -> {out} does not have cannot be exported", op=step.name
            )
        else:
            modes.add("asymmetric" if start == 0 else "half_pixel")
    if len(modes) != 1:
        raise UnsupportedError(
            f"interpolate in several ways at once ({sorted(modes)}) cannot be exported", op=step.name
        )
    how = {"mode": {1: "nearest", 2: "linear", 4: "cubic"}[taps], "coordinate_transformation_mode": modes.pop()}
    if taps == 1:
        how["nearest_mode"] = "floor"
    extra: dict[str, Any] = {"cubic_coeff_a": -0.75} if taps == 4 else {}
    return [graph.add("Resize", [x, None, None, graph.sizes(step.shapes)], step.shapes, **how, **extra)]


# -- indices -----------------------------------------------------------------------------------------------------------


def _take(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x, index = _operand(graph, step, "x"), _operand(graph, step, "index")
    return [graph.add("Gather" if step["rows"] else "GatherElements", [x, index], step.shapes, axis=step["axis"])]


def _windows(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x, size = _operand(graph, step, "x"), step["size"]
    axis, (count, other) = step["axis"] % x.rank, [shape[step["axis"] % x.rank] for shape in step.shapes]
    if count != other:
        raise UnsupportedError("windows along an axis of any length cannot be exported", op=step.name)
    index = graph.constant(np.arange(count)[:, None] * step["step"] + np.arange(size), "int64")
    first, second = ((*shape[: axis + 1], size, *shape[axis + 1 : -1]) for shape in step.shapes)
    taken = graph.add("Gather", [x, index], (first, second), axis=axis)
    order = [*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1]
    return [graph.add("Transpose", [taken], step.shapes, perm=order)]


def _embedding(graph: Graph, step: TracedOp) -> Sequence[Value]:
    index, weight = _operand(graph, step, "index"), _operand(graph, step, "weight")
    index = index if index.dtype in ("int32", "int64") else graph.cast(index, "int64")
    return [graph.add("Gather", [weight, index], step.shapes, axis=0)]


def _cumsum(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = graph.cast(_operand(graph, step, "x"), step.first.results[0].dtype)
    axis = graph.constant(np.array(step["axis"] % x.rank), "int64")
    return [graph.add("CumSum", [x, axis], step.shapes, reverse=int(step["reverse"]))]


def _topk(graph: Graph, step: TracedOp) -> Sequence[Value]:
    x = _operand(graph, step, "x")
    axis = step["axis"] % x.rank
    k = step["k"] if step.name == "topk" else x.shapes[0][axis]
    largest = step["largest"] if step.name == "topk" else step["descending"]
    outputs: list[tuple[Pair, str | None]] = [(step.shapes, None), (step.shapes, "int64")]
    return graph.add_many("TopK", [x, graph.integers([k])], outputs, axis=axis, largest=int(largest))


EMITTERS: Mapping[str, Emitter] = {
    "relu": _unary("Relu"),
    "leaky_relu": _unary("LeakyRelu", alpha="slope"),
    "elu": _unary("Elu", alpha="alpha"),
    "selu": _unary("Selu"),
    "softplus": _unary("Softplus"),
    "softsign": _unary("Softsign"),
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "mean": _mean,
    "argmax_along": _argument("ArgMax"),
    "argmin_along": _argument("ArgMin"),
    "batch_norm_inference": _batch_norm,
    "reshape": _reshape,
    "expand": _expand,
    "permute": _permute,
    "concatenate": _concatenate,
    "strided_slice": _slice,
    "strided_scatter": _place,
    "border": _border,
    "matmul": _matmul,
    "linear": _linear,
    **{f"conv{n}d": _conv for n in (1, 2, 3)},
    **{f"conv{n}d_grad_input": _conv_transpose for n in (1, 2, 3)},
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive("GlobalAveragePool", "AveragePool"),
    "adaptive_max_pool": _adaptive("GlobalMaxPool", "MaxPool"),
    "resample": _resample,
    "take_at": _take,
    "windows": _windows,
    "embedding_rows": _embedding,
    "cumsum": _cumsum,
    "topk": _topk,
    "sort": _topk,
}


def emitter_of(graph: Graph, step: TracedOp) -> Emitter | None:
    """Returns the function that emits this op as a whole; None if its expression is emitted."""
    if step.name == "gelu" and graph.opset >= 20:
        return _gelu
    if step.name == "standardize":
        first, _ = step.both("x")
        axes = normalize_axes(step["axes"], len(first.shape), step.name)
        weight, _ = step.both("weight")
        fits = weight is None or weight.shape == first.shape[axes[0] :]
        return _layer_norm if axes == tuple(range(axes[0], len(first.shape))) and fits else None
    return EMITTERS.get(step.name)
