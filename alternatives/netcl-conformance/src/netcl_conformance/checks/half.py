"""Level half: float16 and bfloat16 as dtypes of every basic row."""

from __future__ import annotations

import numpy as np

import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.dtypes import from_bfloat16, promote, to_bfloat16
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor, values_of

ROWS = (
    "add",
    "mul",
    "neg",
    "relu",
    "where",
    "matmul",
    "maximum",
    "abs",
    "sum",
    "amax",
    "reshape",
    "cat",
    "index_select",
)


@check("half")
def basic_rows_compute_in_half() -> None:
    for dtype in ("float16", "bfloat16"):
        for name in ROWS:
            values_of(name, dtype)


@check("half")
def half_rounds_promotes_and_is_read() -> None:
    x = np.array([1.0, 1.0009765625, 65504.0, 3e-5], np.float32)
    assert tensor(x, "float16").numpy().astype(np.float32).tolist() == x.astype(np.float16).astype(np.float32).tolist()
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(x)), rounded)
    np.testing.assert_array_equal(tensor(x, "bfloat16").numpy().astype(np.float32), rounded)
    assert promote("float16", "bfloat16") == "float32"
    assert promote("int64", "float16") == "float16"
    ones = Tensor.ones((4096,), "float16")
    assert ops.sum(ones).item() == 4096, "a sum accumulates in float32"
    a = tensor(np.ones((2, 4096)), "float16")
    assert_close(ops.matmul(a, ops.permute(a, (1, 0))), np.full((2, 2), 4096.0), "float16")
