"""Limits that are tensors: torch.clamp, its methods and forms in place, with NaN, ties, broadcasting and gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netcl as nc
from netcl.core.errors import DTypeError, ShapeError

NAN = np.nan
X = np.array([NAN, 1.0, 2.0, 3.0, 5.0, 4.0, 0.0, 9.0, -np.inf, 2.0], np.float32)
LOW = np.array([2.0, NAN, 2.0, 1.0, 4.0, 6.0, 1.0, 3.0, 0.0, 3.0], np.float32)
HIGH = np.array([2.0, 3.0, 3.0, 3.0, NAN, 5.0, 1.0, 3.0, np.inf, 3.0], np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
WHOLE = np.arange(6)

# name: (the call, arrays)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "both": (lambda t, x, low, high: t.clamp(x, low, high), (X, LOW, HIGH)),
    "by name": (lambda t, x, low, high: t.clip(x, max=high, min=low), (X, LOW, HIGH)),
    "input by name": (lambda t, x, low: t.clamp(input=x, min=low), (X, LOW)),
    "method": (lambda t, x, low, high: x.clip(low, high), (X, LOW, HIGH)),
    "least": (lambda t, x, low: t.clamp(x, low), (X, LOW)),
    "most": (lambda t, x, high: x.clamp(max=high), (X, HIGH)),
    "clamp_min": (lambda t, x, low: t.clamp_min(x, low), (X, LOW)),
    "clamp_max": (lambda t, x, high: x.clamp_max(high), (X, HIGH)),
    "in place": (lambda t, x, low, high: (x * 1).clamp_(low, high), (X, LOW, HIGH)),
    "in place, a function": (lambda t, x, high: t.clip_(x * 1, max=high), (X, HIGH)),
    "clamp_min_": (lambda t, x, low: (x * 1).clamp_min_(low), (X, LOW)),
    "broadcast": (
        lambda t, x, low, high: t.clamp(x, low, high),
        (TABLE, np.float32([[1], [5], [9]]), np.float32([7.5])),
    ),
    "broadcast of x": (lambda t, x, low: t.clamp(x, low), (TABLE[0], TABLE - 3)),
    "a limit without axes": (lambda t, x, low: t.clamp(x, low), (TABLE, np.float32(4.0))),
    "wide limits": (lambda t, x, low: t.clamp(x, low), (X, LOW.astype(np.float64))),
    "a wide limit without axes": (lambda t, x, low: t.clamp(x, low), (TABLE, np.float64(4.0))),
    "half": (lambda t, x, low: t.clamp(x, low), (TABLE.astype(np.float16), TABLE - 1)),
    "integers": (lambda t, x, low, high: t.clamp(x, low, high), (WHOLE, np.full(6, 2), np.int32([4]))),
    "integers, float limits": (lambda t, x, low: t.clamp(x, low), (WHOLE, np.float32(2.5))),
    "uint8": (lambda t, x, low, high: t.clamp(x, low, high), (WHOLE.astype(np.uint8), np.array([-3]), np.array([300]))),
    "bool": (lambda t, x, low: t.clamp(x, low), (np.array([False, True]), np.array([True, False]))),
    "numbers, NaN": (lambda t, x: t.clamp(x, NAN, 3.0), (X,)),
    "numbers, max below min": (lambda t, x: t.clamp(x, 3, 2.5), (X,)),
}


def _run(library: Any, name: str) -> tuple[Any, list[Any]]:
    call, arrays = CALLS[name]
    tensors = [
        library.tensor(array, dtype=getattr(library, str(array.dtype)), requires_grad=array.dtype.kind == "f")
        for array in map(np.array, arrays)
    ]
    return call(library, *tensors), tensors


@pytest.mark.parametrize("name", CALLS)
def test_values_and_dtypes_are_pytorchs(name: str) -> None:
    (ours, _), (theirs, _) = _run(nc, name), _run(torch, name)
    assert f"torch.{ours.dtype}".replace("netcl.", "") == str(theirs.dtype)
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())


@pytest.mark.parametrize("name", [name for name, (_, arrays) in CALLS.items() if arrays[0].dtype == np.float32])
def test_gradients_are_pytorchs(name: str) -> None:
    (ours, mine), (theirs, others) = _run(nc, name), _run(torch, name)
    seed = np.arange(1, theirs.numel() + 1).reshape(theirs.shape).astype(str(theirs.dtype)[6:])
    ours.backward(nc.tensor(seed, dtype=ours.dtype))
    theirs.backward(torch.tensor(seed))
    for a, b in zip(mine, others):
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


# (call, the error here, the error there)
REFUSED = [
    (lambda t, x: t.clamp(x), RuntimeError, RuntimeError),
    (lambda t, x: t.clamp(x, x, 3.0), TypeError, TypeError),
    (lambda t, x: x.clamp(0, x), TypeError, TypeError),
    (lambda t, x: t.clamp(x, t.ones(3)), ShapeError, RuntimeError),
    (lambda t, x: x.clamp_(t.ones(2, 4)), ShapeError, RuntimeError),
    (lambda t, x: t.arange(4).clamp_(x), DTypeError, RuntimeError),
]


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_both_refuse(at: int) -> None:
    call, here, there = REFUSED[at]
    with pytest.raises(there):
        call(torch, torch.ones(4))
    with pytest.raises(here, match=re.compile("clamp|broadcast|stored")):
        call(nc, nc.ones(4))
