"""Promotion of all pairs of dtypes, of 0-d tensors and of Python numbers, and integer arithmetic, against PyTorch."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from netcl import ops
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.dtypes import SUPPORTED, promote
from netcl.core.errors import DTypeError
from netcl.io import load_torch, save_torch

PAIRS = list(itertools.product(SUPPORTED, SUPPORTED))


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def of_torch(dtype: str) -> torch.dtype:
    return getattr(torch, dtype)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_promotion_is_pytorchs_where_it_has_one(a: str, b: str) -> None:
    try:
        wanted = name_of(torch.promote_types(of_torch(a), of_torch(b)))
    except RuntimeError:  # uint16, uint32 and uint64 with other integers
        signed = {a, b} & {"int8", "int16", "int32", "int64"}
        if "uint64" in (a, b) and signed:
            with pytest.raises(DTypeError):
                promote(a, b)
        else:
            assert promote(a, b) == ("int64" if {a, b} == {"int64", "uint32"} else np.promote_types(a, b).name)
        return
    assert promote(a, b) == wanted


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_zero_dimensional_tensors_are_weak_within_a_kind(a: str, b: str) -> None:
    x, y = torch.ones(2, dtype=of_torch(a)), torch.ones((), dtype=of_torch(b))
    try:
        wanted = name_of(torch.result_type(x, y))
    except RuntimeError:
        pytest.skip("PyTorch refuses these dtypes together")
    with device("cpu"):
        left, right = Tensor.ones((2,), a), Tensor.ones((), b)
        assert ops.maximum(left, right).dtype == wanted
        assert ops.maximum(right, left).dtype == wanted


@pytest.mark.parametrize("name", SUPPORTED)
def test_the_dtype_of_a_tensor_has_pytorchs_attributes(name: str) -> None:
    ours, theirs = Tensor.ones((2,), name).dtype, torch.ones(2, dtype=of_torch(name)).dtype
    for attribute in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute


def test_dtypes_in_a_file(tmp_path: Path) -> None:
    dtypes = [*SUPPORTED]
    save_torch([Tensor.ones((1,), name).dtype for name in dtypes], tmp_path / "ours.pt")
    assert torch.load(tmp_path / "ours.pt") == [of_torch(name) for name in dtypes]
    torch.save([of_torch(name) for name in dtypes], tmp_path / "theirs.pt")
    assert load_torch(tmp_path / "theirs.pt") == dtypes


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_python_numbers_are_weak(dtype: str, number: Any) -> None:
    wanted = name_of(torch.result_type(torch.ones(2, dtype=of_torch(dtype)), number))
    with device("cpu"):
        assert ops.maximum(Tensor.ones((2,), dtype), number).dtype == wanted


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_compute_as_pytorchs(dtype: str) -> None:
    limits = torch.iinfo(of_torch(dtype))
    numbers = sorted({limits.min, limits.max, 0, 1, 2, 3, 7, 100} | ({-1, -2, -7} if limits.min else set()))
    a, b = (np.array(part) for part in zip(*itertools.product(numbers, numbers)))
    x, y = (torch.tensor(part, dtype=of_torch(dtype)) for part in (a, b))
    nonzero = b != 0
    with device("cpu"):
        left, right = (Tensor.from_host(part, dtype) for part in (a, b))
        for name, other in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("maximum", torch.maximum)):
            found = getattr(ops, name)(left, right)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.numpy(), other(x, y).numpy())
        divisor = torch.tensor(b[nonzero], dtype=of_torch(dtype))
        for name, other in (("floor_divide", torch.floor_divide), ("mod", torch.remainder)):
            found = getattr(ops, name)(left, right).numpy()[nonzero]
            np.testing.assert_array_equal(found, other(x[nonzero], divisor).numpy())
        square = torch.ones((2, 3), dtype=of_torch(dtype))
        ones = Tensor.ones((2, 3), dtype)
        assert (ones @ ones.T).dtype == name_of((square @ square.T).dtype)
        assert ops.tensordot(ones, ones, 2).dtype == name_of(torch.tensordot(square, square, 2).dtype)


def test_quotients_of_special_floats() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, 3e38], np.float32)
    a, b = (np.array(part, np.float32) for part in zip(*itertools.product(values, values)))
    with device("cpu"):
        x, y = Tensor.from_host(a), Tensor.from_host(b)
        wanted = torch.floor_divide(torch.tensor(a), torch.tensor(b)).numpy()
        np.testing.assert_array_equal((x // y).numpy(), wanted)
        np.testing.assert_array_equal((x % y).numpy(), torch.remainder(torch.tensor(a), torch.tensor(b)).numpy())
