"""Integers and bools in ops that are mostly called with floats: dtypes and values as PyTorch gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import ArgumentError


def of(values: Any, dtype: str = "int64") -> Tensor:
    return Tensor.from_host(np.array(values), dtype)


def flags(*values: int) -> Tensor:
    return of(values, "bool")


Case = tuple[Callable[[], Tensor], str, Any]

CASES: dict[str, Case] = {
    "relu": (lambda: ops.relu(of([-3, 0, 4], "int32")), "int32", [0, 0, 4]),
    "relu6": (lambda: ops.relu6(of([-3, 5, 9])), "int64", [0, 5, 6]),
    "threshold": (lambda: ops.threshold(of([3, 6, 8]), 6, 9), "int64", [9, 9, 8]),
    "hard_tanh": (lambda: ops.hard_tanh(of([-3, 0, 4]), -0.5, 2.5), "int64", [0, 0, 2]),
    "linear": (lambda: ops.linear(of([1, 2]), of([[3, 4]]), of([5])), "int64", [16]),
    "pairwise_distance": (lambda: ops.pairwise_distance(of([3, 4]), of([0, 0]), eps=0.0), "float32", 5),
    "logsumexp of nothing": (lambda: ops.logsumexp(of(np.zeros((2, 0))), 1), "float32", [-np.inf, -np.inf]),
    "trapezoid of nothing": (lambda: ops.trapezoid(of(np.zeros((2, 0)))), "int64", [0, 0]),
    "trapezoid wraps": (lambda: ops.trapezoid(of([200, 100], "uint8"), of([0, 2], "uint8")), "float32", 44),
    "tensordot": (
        lambda: ops.tensordot(of([[1, 2]], "int32"), of([[3]], "int32"), axes=((1,), (0,))),
        "int32",
        [[9]],
    ),
    "unravel_index": (lambda: ops.unravel_index(of([200], "uint8"), (2, 1000))[1], "int64", [200]),
    "index_add": (
        lambda: ops.index_add(of([1, 2], "uint8"), 0, [1], of([3], "uint8"), alpha=-1),
        "uint8",
        [1, 255],
    ),
    "masked_fill": (lambda: ops.masked_fill(of([1, 2], "int32"), flags(0, 1), 7.5), "int32", [1, 7]),
    "masked_fill of bools": (lambda: ops.masked_fill(flags(0, 0), flags(0, 1), 10), "bool", [0, 1]),
    "square of bools": (lambda: ops.square(flags(0, 1)), "int64", [0, 1]),
    "sign of bools": (lambda: ops.sign(flags(0, 1)), "bool", [0, 1]),
    "sum_to_size": (lambda: of([3], "int32")[0].sum_to_size(()), "int64", 3),
    "addbmm": (
        lambda: nc.addbmm(of([[1]], "int32"), of([[[2]]], "int32"), of([[[3]]], "int32")),
        "int32",
        [[7]],
    ),
    "addr of bools": (lambda: nc.addr(flags(0, 1), flags(1, 0), flags(1, 0)), "bool", [[1, 1], [0, 1]]),
    "diag_embed of bools": (lambda: nc.diag_embed(flags(1, 0)), "bool", [[1, 0], [0, 0]]),
    "im2col of bools": (lambda: ops.im2col(of([[[0, 1, 1]]], "bool"), 2), "bool", [[0, 1], [1, 1]]),
    "dropout that is off": (lambda: ops.feature_alpha_dropout(of([[1, 2]]), 0.5, False), "int64", [[1, 2]]),
}  # fmt: skip
BOOLS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "index_add": lambda x, at, source: ops.index_add(x, 0, at, source),
    "index_put": lambda x, at, source: ops.index_put(x, (at,), source, True),
    "put": lambda x, at, source: x.put(at, source, True),
    "scatter_add": lambda x, at, source: ops.scatter_add(x, 0, at, source),
    "amax": lambda x, at, source: ops.scatter_reduce(x, 0, at, source, "amax"),
    "index_reduce": lambda x, at, source: ops.index_reduce(x, 0, at, source, "amax"),
}


@pytest.mark.parametrize("name", CASES)
def test_dtypes_and_values(name: str, engine: Any) -> None:
    call, dtype, wanted = CASES[name]
    result = call()
    assert (result.dtype, result.tolist()) == (dtype, wanted)


@pytest.mark.parametrize("name", BOOLS)
def test_sums_of_bools_are_or(name: str, engine: Any) -> None:
    result = BOOLS[name](flags(1, 0, 0), of([0, 1, 1]), flags(0, 1, 1))
    assert (result.dtype, result.tolist()) == ("bool", [True, True, False])


def test_products_of_bools_are_and(engine: Any) -> None:
    result = ops.scatter_reduce(flags(1, 1, 0), 0, of([0, 1, 2]), flags(1, 0, 1), "prod")
    assert result.tolist() == [True, False, False]


def test_weights_widen_a_covariance(engine: Any) -> None:
    x = Tensor.from_host(np.array([1.0, 4.0]), "float16")
    result = ops.cov(x, correction=0, aweights=Tensor.from_host(np.array([1.0, 3.0]), "float32"))
    assert result.dtype == "float32"
    assert result.item() == pytest.approx(27 / 16)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**70, -1])
def test_a_fill_beyond_the_dtype_is_named(value: float) -> None:
    x = Tensor.from_host(np.arange(3, dtype=np.uint8))
    with pytest.raises(ArgumentError, match="expected a value that uint8 holds, got"):
        ops.masked_fill(x, Tensor.from_host(np.array([True, False, True])), value)
