"""The ops that autocast leaves in float32 on CPUs: a rule on shapes, from measurements (docs/adr/0105).

There the arithmetic of half types is float32's, so an op in a half type gains by the memory traffic alone, and pays for
casts and rounding. On float32 operands only convolutions of many elements are faster in a half type. The result
of such a convolution is half. The ops that read it compute in half too, and cast only their weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

HALVES = ("float16", "bfloat16")
# Elements of the images and of the result from which a convolution of float32 images is faster in a half type.
LEAST = 1 << 19

# The first operand of convolutions by their name, and the axis of the weight that is the channels of the result. A
# transposed convolution is the gradient of one by its input.
_CONVOLUTIONS = {
    **{f"conv{n}d": ("x", 0) for n in (1, 2, 3)},
    **{f"conv{n}d_grad_input": ("grad_output", 1) for n in (1, 2, 3)},
}
_LEFT = frozenset(
    [
        "matmul",
        "linear",
        "tiled_attention",
        "tiled_attention_gradients",
        "batch_norm_training",
        "batch_norm_inference",
        *(f"conv{n}d_grad_weight" for n in (1, 2, 3)),
    ]
)


def is_left(op: str, args: Sequence[Any], kwargs: Mapping[str, Any], dtypes: Sequence[str]) -> bool:
    """Returns True if ``op`` on operands of ``dtypes`` stays in float32 on a CPU: none of them is half, and a half type
    is not faster for these shapes. Ops that this module does not list are not left.
    """
    if any(dtype in HALVES for dtype in dtypes):
        return False
    if op not in _CONVOLUTIONS:
        return op in _LEFT
    name, axis = _CONVOLUTIONS[op]
    arguments = {**dict(zip((name, "weight", "shape"), args)), **kwargs}
    x, weight = arguments[name], arguments["weight"]
    rank = weight.ndim - 1  # of an image
    if rank < 1 or x.ndim < rank:
        return False  # the op says what is wrong
    inputs = x.shape if axis == 0 else arguments["shape"]
    if inputs[-rank] != weight.shape[1]:  # in groups
        return True
    pixels = prod(x.shape) // max(1, x.shape[-rank])
    return bool(pixels * (x.shape[-rank] + weight.shape[axis]) < LEAST)
