"""The products, convolutions, attention and layers that are timed, as data that every contestant understands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One row: its operation with its options, operands, and multiply-adds times two.

    With ``gradients`` the last operand is the gradient of the result, and those of the other operands are computed.
    """

    name: str
    family: str
    op: str
    shapes: tuple[Shape, ...]
    flops: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    gradients: bool = False


def operands(row: Row) -> list[np.ndarray[Any, Any]]:
    """The operands of a row, float32 between -1 and 1, the same in every process."""
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in row.shapes]


def _matmul(name: str, a: Shape, b: Shape) -> Row:
    return Row(f"matmul {name}", "matmul", "matmul", (a, b), 2.0 * int(np.prod(a)) * b[-1])


def _conv(name: str, n: int, ins: int, outs: int, side: int, kernel: int, **options: int) -> Iterator[Row]:
    given = {"stride": 1, "padding": kernel // 2, "groups": 1} | options
    out = (side + 2 * given["padding"] - kernel) // given["stride"] + 1
    x, weight, grad = (n, ins, side, side), (outs, ins // given["groups"], kernel, kernel), (n, outs, out, out)
    flops = 2.0 * n * outs * out * out * (ins // given["groups"]) * kernel * kernel
    yield Row(f"conv {name}", "conv", "conv2d", (x, weight), flops, given)
    yield Row(f"conv {name}, with gradients", "conv", "conv2d", (x, weight, grad), 3 * flops, given, gradients=True)


def _attention(keys: int) -> Row:
    shape = (8, 4, keys, 64)
    flops = 2.0 * 7 * 32 * keys * keys * 64
    name = f"attention B8 H4 T{keys} D64, with gradients"
    return Row(name, "attention", "attention", (shape,) * 4, flops, gradients=True)


def rows() -> Iterator[Row]:
    """The rows of the table, in order."""
    for side in (256, 512, 1024, 2048):
        yield _matmul(f"{side}^3", (side, side), (side, side))
    yield _matmul("256x512x512", (256, 512), (512, 512))
    yield _matmul("1024x256x1024", (1024, 256), (256, 1024))
    yield _matmul("64x784x512", (64, 784), (784, 512))
    yield _matmul("128^3", (128, 128), (128, 128))
    yield _matmul("64 of 64^3", (64, 64, 64), (64, 64, 64))
    yield _matmul("4096^2 by a vector", (4096, 4096), (4096, 1))
    for channels, side in ((64, 32), (128, 16), (256, 8), (512, 4)):
        yield from _conv(f"3x3 {channels} channels {side}x{side}, N 32", 32, channels, channels, side, 3)
    yield from _conv("3x3 3 to 64 channels 32x32, N 32", 32, 3, 64, 32, 3)
    yield from _conv("1x1 stride 2, 64 to 128 channels 32x32, N 32", 32, 64, 128, 32, 1, stride=2)
    yield from _conv("3x3 depthwise 64 channels 32x32, N 32", 32, 64, 64, 32, 3, groups=64)
    yield _attention(128)
    yield _attention(1024)
    images = (32, 64, 32, 32)
    pooled = "max pool 64 channels 32x32, N 32"
    yield Row(pooled, "memory", "max_pool2d", (images, (32, 64, 16, 16)), gradients=True)
    normed = "batch norm 64 channels 32x32, N 32"
    yield Row(normed, "memory", "batch_norm", (images, (64,), (64,), images), gradients=True)
