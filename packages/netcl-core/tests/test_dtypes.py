"""The dtypes: names, storage, promotion, and the rounding of bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netcl import ops
from netcl.core import Tensor, dtypes
from netcl.core.device import device
from netcl.core.errors import DTypeError

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("uint8", "int32", "int64")


@pytest.mark.parametrize(
    ("given_dtype", "name"),
    [
        ("float", "float32"),
        ("half", "float16"),
        ("double", "float64"),
        ("bfloat16", "bfloat16"),
        (np.float32, "float32"),
        (np.dtype("int64"), "int64"),
        (np.dtype(">i4"), "int32"),
        (np.bool_, "bool"),
        (float, "float32"),
        (int, "int64"),
        (bool, "bool"),
    ],
)
def test_canonical(given_dtype, name):
    assert dtypes.canonical(given_dtype) == name


@pytest.mark.parametrize("name", dtypes.SUPPORTED)
def test_canonical_names_stay(name):
    assert dtypes.canonical(name) == name
    assert dtypes.itemsize(name) == dtypes.numpy_dtype(name).itemsize


@pytest.mark.parametrize(
    "bad", ["float8", "int", "f4", "", None, np.uint16, np.complex64, np.dtype("S3"), object(), [], "uint16"]
)
def test_unsupported_dtypes_are_named_with_those_that_are(bad):
    with pytest.raises(DTypeError) as caught:
        dtypes.canonical(bad)
    for name in dtypes.SUPPORTED:
        assert name in str(caught.value)


def test_storage_and_c_types():
    assert dtypes.numpy_dtype("bfloat16") == np.uint16
    assert dtypes.numpy_dtype("bool") == np.bool_
    assert [dtypes.c_type(n) for n in dtypes.SUPPORTED] == [
        "float", "half", "ushort", "double", "int", "long", "uchar", "uchar",
    ]  # fmt: skip
    assert [dtypes.compute_type(n) for n in dtypes.SUPPORTED] == [
        "float", "float", "float", "double", "int", "long", "int", "int",
    ]  # fmt: skip
    assert [n for n in dtypes.SUPPORTED if dtypes.is_floating(n)] == ["float32", "float16", "bfloat16", "float64"]


@pytest.mark.parametrize("a", [*INTS, "bool", "float16", "float32", "float64"])
@pytest.mark.parametrize("b", [*INTS, "bool", "float16", "float32", "float64"])
def test_promotion_is_numpys_within_a_kind_and_the_float_across(a, b):
    expected = np.promote_types(a, b).name
    for integer, floating in ((a, b), (b, a)):
        if integer in (*INTS, "bool") and floating in FLOATS:
            expected = floating
    assert dtypes.promote(a, b) == expected


@pytest.mark.parametrize(
    ("members", "result"),
    [
        (("float16", "bfloat16"), "float32"),
        (("bfloat16", "float32"), "float32"),
        (("bfloat16", "float64"), "float64"),
        (("float16", "bfloat16", "float64"), "float64"),
        (("bfloat16", "int64"), "bfloat16"),
        (("bfloat16", "bool"), "bfloat16"),
        (("float16", float), "float16"),
        (("bfloat16", int), "bfloat16"),
        (("int32", int), "int32"),
        (("uint8", bool), "uint8"),
        (("int32", float), "float32"),
        (("bool", float), "float32"),
        (("bool", int), "int64"),
        (("bool", bool), "bool"),
        ((int, float), "float32"),
        ((bool, int), "int64"),
        ((bool,), "bool"),
        (("uint8", "int32", int), "int32"),
        ((np.float64, "half", int), "float64"),
    ],
)
def test_promotion(members, result):
    assert dtypes.promote(*members) == result
    assert dtypes.promote(*reversed(members)) == result


NUMBERS = {"bool": [True, False, True], "uint8": [3, 0, 200], "int32": [-3, 5, 70000], "int64": [2**40, -7, 1]}


def _tensor(dtype, by=1.0):
    return Tensor.from_host(np.array(NUMBERS.get(dtype, [0.5 * by, -2.0, 3.25])), dtype)


def _wide(tensor):
    return tensor.numpy().astype(np.float64)


@pytest.mark.parametrize("a", dtypes.SUPPORTED)
@pytest.mark.parametrize("b", dtypes.SUPPORTED)
def test_binary_ops_promote(a, b):
    """In NumPy: sums, extrema and comparisons of all pairs of dtypes have the promoted dtype and NumPy's values."""
    with device("cpu"):
        x, y = _tensor(a), _tensor(b, by=3.0)
        wanted = dtypes.promote(a, b)
        assert (x * y).dtype == ops.maximum(x, y).dtype == ops.where(x > 0, x, y).dtype == wanted
        assert (x < y).dtype == "bool"
        assert (x / y).dtype == (wanted if dtypes.is_floating(wanted) else "float32")
        assert ops.sum(x).dtype == (a if dtypes.is_floating(a) else "int64")
        # bool counts as 0 and 1 with numbers, and is logical with bool.
        with np.errstate(all="ignore"):
            sums = (_wide(x) + _wide(y)) % 256 if wanted == "uint8" else _wide(x) + _wide(y)
            sums = sums.astype(np.float16).astype(np.float64) if wanted == "float16" else sums
        if wanted == "bool":
            sums = sums != 0
        np.testing.assert_allclose(_wide(x + y), sums, rtol=1e-2)
        np.testing.assert_array_equal((x < y).numpy(), _wide(x.astype(wanted)) < _wide(y.astype(wanted)))


@pytest.mark.parametrize("dtype", dtypes.SUPPORTED)
@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_python_numbers_are_weak(dtype, number):
    with device("cpu"):
        x = _tensor(dtype)
        wanted = dtypes.promote(dtype, type(number))
        assert (x * number).dtype == (number * x).dtype == ops.maximum(x, number).dtype == wanted


def test_numbers_that_do_not_fit_are_refused(engine):
    x = Tensor.from_host(np.array([1, 255]), "uint8")
    for number in (300, -1):
        with pytest.raises(OverflowError, match=rf"add: {number} does not fit uint8"):
            x + number
        with pytest.raises(OverflowError, match="does not fit uint8"):
            assert x > number
    with pytest.raises(OverflowError, match="does not fit int32"):
        Tensor.from_host(np.array([1]), "int32") + 2**40
    assert (x + 1).tolist() == [2, 0]
    assert (x * 2.5).dtype == "float32"


@pytest.mark.parametrize(
    "dtype", ["uint8", *(pytest.param(name, marks=pytest.mark.deep) for name in ("int32", "int64"))]
)
def test_whole_numbers_wrap_and_divide_as_numpys(dtype, engine):
    a, b = np.array([7, 200, 3, 0, 255]), np.array([2, 100, 0, 5, 7])
    x, y = Tensor.from_host(a, dtype), Tensor.from_host(b, dtype)
    with np.errstate(all="ignore"):
        for found, wanted in (
            (x - y, a.astype(dtype) - b.astype(dtype)),
            (x * y, a.astype(dtype) * b.astype(dtype)),
            (x // y, a.astype(dtype) // b.astype(dtype)),
            (x % y, a.astype(dtype) % b.astype(dtype)),
            (-x, -a.astype(dtype)),
        ):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.numpy(), wanted)


def test_promotion_refuses_nothing_and_nonsense():
    with pytest.raises(DTypeError):
        dtypes.promote()
    with pytest.raises(DTypeError):
        dtypes.promote("float32", "complex64")


def _nearest_even_bfloat16(value: np.float32) -> int:
    """Slow and plain: the closer of the two neighbours in exact arithmetic, the even pattern in a tie."""
    low = int(np.float32(value).view(np.uint32)) >> 16
    high = low + 1
    exact = float(value)
    a, b = (float(np.uint32(p << 16).view(np.float32)) for p in (low, high))
    if np.isinf(b):
        b = float(np.copysign(2.0**128, exact))
    da, db = abs(exact - a), abs(b - exact)
    return low if da < db or (da == db and low % 2 == 0) else high


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bfloat16_rounds_to_nearest_even(value):
    single = np.float32(value)
    assert int(dtypes.to_bfloat16(single)) == _nearest_even_bfloat16(single)


def test_bfloat16_round_trip_of_all_patterns():
    patterns = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    values = dtypes.from_bfloat16(patterns)
    assert values.dtype == np.float32
    assert values.shape == patterns.shape
    back = dtypes.to_bfloat16(values)
    nan = np.isnan(values)
    assert np.array_equal(back[~nan], patterns[~nan])
    assert nan.sum() == 2 * 127
    assert np.isnan(dtypes.from_bfloat16(back[nan])).all()
    assert np.array_equal(back[nan] >> 15, patterns[nan] >> 15)


def test_bfloat16_specials():
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF800001], dtype=np.uint32).view(np.float32)
    assert np.isnan(dtypes.from_bfloat16(dtypes.to_bfloat16(nans))).all()
    assert dtypes.to_bfloat16([np.inf, -np.inf, 0.0, -0.0, 3.4028235e38]).tolist() == [
        0x7F80, 0xFF80, 0x0000, 0x8000, 0x7F80,
    ]  # fmt: skip
    empty = dtypes.to_bfloat16(np.zeros((0, 3), np.float32))
    assert empty.shape == (0, 3)
    scalar = dtypes.to_bfloat16(np.float32(1.0))
    assert scalar.shape == ()
    assert dtypes.from_bfloat16(scalar).shape == ()
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert np.array_equal(dtypes.from_bfloat16(dtypes.to_bfloat16(strided)), strided)
