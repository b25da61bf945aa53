"""Products of integers are exact and wrap, also if they are computed as products of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core.testing import masked
from netcl.ops import linalg

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}


def operands(engine: Any, dtype: str, shape: tuple[int, ...], seed: int) -> tuple[Any, Any]:
    """Integers of the whole range, with the limits in the first row and column, as an array and a tensor."""
    low, high = LIMITS[dtype]
    array = np.random.default_rng(seed).integers(low, high + 1, shape).astype(dtype)
    array[..., 0, :], array[..., :, 0] = low, low
    return array, engine.tensor(array, dtype)


@pytest.mark.parametrize("second", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("first", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("inner", [70, 1100])  # sums of 8 bits that are exact in float32, and that are not
def test_products_are_exact(engine: Any, first: str, second: str, inner: int) -> None:
    (a, x), (b, y) = operands(engine, first, (66, inner), 1), operands(engine, second, (inner, 65), 2)
    found = ops.matmul(x, y).numpy()
    assert np.array_equal(found, np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(found.dtype))


@pytest.mark.parametrize("flags", [(False, True), (True, False), (True, True)])
def test_stacks_and_transposes(engine: Any, flags: tuple[bool, bool]) -> None:
    a, x = operands(engine, "int8", (2, 72, 40) if flags[0] else (2, 40, 72), 1)
    b, y = operands(engine, "uint8", (1, 64, 72) if flags[1] else (1, 72, 64), 2)
    found = ops.matmul(x, y, transpose_a=flags[0], transpose_b=flags[1]).numpy()
    wide = [array.astype(np.int64) for array in (a, b)]
    left, right = (array.swapaxes(-1, -2) if flag else array for array, flag in zip(wide, flags))
    assert np.array_equal(found, (left @ right).astype(found.dtype))


def test_the_floating_dtype_has_the_bits_of_the_sums(engine: Any) -> None:
    small, byte, short = (engine.tensor(np.ones((2, 2)), dtype) for dtype in ("int8", "uint8", "int16"))
    double = "float64"
    for a, b, inner, expected in (
        (small, small, 1024, "float32"), (small, small, 1025, double), (byte, byte, 256, "float32"),
        (byte, byte, 257, double), (short, small, 1, double), (short, short, 2**23, double),
        (short, short, 2**23 + 1, None), (small, engine.tensor(np.ones((2, 2)), "int32"), 2, None),
    ):  # fmt: skip
        assert linalg._exact_float(a, b, 2**18, inner) == expected, (a.dtype, b.dtype, inner)


def test_a_device_without_float64_computes_in_integers(engine: Any) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has float64")
    from netcl.core.engine.registry import engine_for

    with masked(engine.handle, has_fp64=False) as handle:
        seen = engine_for(handle)
        (a, x), (b, y) = operands(seen, "int16", (66, 70), 1), operands(seen, "int16", (70, 65), 2)
        assert linalg._exact_float(x, y, 66 * 65, 70) is None
        assert np.array_equal(ops.matmul(x, y).numpy(), (a.astype(np.int64) @ b).astype(np.int16))


def test_few_products_are_computed_in_integers(engine: Any) -> None:
    x = engine.tensor(np.ones((2, 2)), "int8")
    assert linalg._exact_float(x, x, linalg._LEAST_PRODUCTS - 1, 1) is None
    assert linalg._exact_float(x, x, linalg._LEAST_PRODUCTS, 1) == "float32"
