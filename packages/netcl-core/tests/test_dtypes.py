"""The dtypes: names, storage, promotion, and the rounding of bfloat16."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netcl import ops
from netcl.core import Tensor, dtypes
from netcl.core.device import device, use_pytorch_names
from netcl.core.errors import DTypeError
from netcl.core.expr import Load, cast

FLOATS = ("float16", "bfloat16", "float32", "float64")
# The names that most kernels of the others are like; the rest build as many kernels.
SAMPLED = ("uint8", "int16", "uint64")
INTS = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
EACH_INTEGER = [pytest.param(name, marks=[] if name in SAMPLED else pytest.mark.deep) for name in INTS]


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
    "bad", ["float8", "int", "f4", "", None, np.longdouble, np.complex64, np.dtype("S3"), object(), [], "uint128"]
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
        "float", "half", "ushort", "double", "int", "long",
        "uchar", "char", "short", "ushort", "uint", "ulong", "uchar",
    ]  # fmt: skip
    assert [dtypes.compute_type(n) for n in dtypes.SUPPORTED] == [
        "float", "float", "float", "double", "int", "long", "int", "int", "int", "uint", "uint", "ulong", "int",
    ]  # fmt: skip
    assert [n for n in dtypes.SUPPORTED if dtypes.is_floating(n)] == ["float32", "float16", "bfloat16", "float64"]


@pytest.mark.parametrize("a", [*INTS, "bool", "float16", "float32", "float64"])
@pytest.mark.parametrize("b", [*INTS, "bool", "float16", "float32", "float64"])
def test_promotion_is_numpys_within_a_kind_and_the_float_across(a, b):
    expected = np.promote_types(a, b).name
    if expected == "float64" and "uint64" in (a, b) and a in INTS and b in INTS:
        with pytest.raises(DTypeError, match="no integer dtype holds both uint64 and int.*astype"):
            dtypes.promote(a, b)
        return
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


NUMBERS = {
    "bool": [True, False, True],
    "uint8": [3, 0, 200],
    "int8": [-3, 5, 120],
    "int16": [-3, 5, 30000],
    "uint16": [3, 5, 60000],
    "int32": [-3, 5, 70000],
    "uint32": [3, 5, 2**32 - 9],
    "int64": [2**40, -7, 1],
    "uint64": [2**64 - 5, 7, 1],
}


def _tensor(dtype, by=1.0):
    return Tensor.from_host(NUMBERS.get(dtype, [0.5 * by, -2.0, 3.25]), dtype)


def _wide(tensor):
    return tensor.numpy().astype(np.float64)


@pytest.mark.parametrize("a", dtypes.SUPPORTED)
@pytest.mark.parametrize("b", dtypes.SUPPORTED)
def test_binary_ops_promote(a, b):
    """In NumPy: sums, extrema and comparisons of all pairs of dtypes have the promoted dtype and NumPy's values."""
    with device("cpu"):
        x, y = _tensor(a), _tensor(b, by=3.0)
        if "uint64" in (a, b) and {a, b} & {"int8", "int16", "int32", "int64"}:
            with pytest.raises(DTypeError, match="mul: no integer dtype holds both"):
                x * y
            return
        wanted = dtypes.promote(a, b)
        assert (x * y).dtype == ops.maximum(x, y).dtype == ops.where(x > 0, x, y).dtype == wanted
        assert (x < y).dtype == "bool"
        assert (x / y).dtype == (wanted if dtypes.is_floating(wanted) else "float32")
        assert ops.sum(x).dtype == (a if dtypes.is_floating(a) else "int64")
        # bool counts as 0 and 1 with numbers, and is logical with bool.
        with np.errstate(all="ignore"):
            if wanted in INTS:
                sums = (x.numpy().astype(wanted) + y.numpy().astype(wanted)).astype(np.float64)
            else:
                sums = _wide(x) + _wide(y)
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


@pytest.mark.parametrize("dtype", EACH_INTEGER)
def test_integers_wrap_and_divide_as_numpys(dtype, engine):
    """Over all pairs of the extremes of a dtype; a quotient by -1 of its least number does not end the process."""
    least, most = dtypes.integer_range(dtype)
    numbers = np.array(sorted({least, least + 1, most // 2, most - 1, most, max(least, -1), 0, 1, 3, 7}), dtype)
    a, b = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    x, y = Tensor.from_host(a), Tensor.from_host(b)
    assert x.dtype == dtype
    with np.errstate(all="ignore"):
        for name, found, wanted in (
            ("add", x + y, a + b),
            ("sub", x - y, a - b),
            ("mul", x * y, a * b),
            ("floor_divide", x // y, a // b),
            ("mod", x % y, a % b),
            ("neg", -x, -a),
            ("abs", abs(x), abs(a)),
            ("and", x & y, a & b),
            ("or", x | y, a | b),
            ("xor", x ^ y, a ^ b),
            ("not", ~x, ~a),
            ("sign", ops.sign(x), np.sign(a)),
            ("maximum", ops.maximum(x, y), np.maximum(a, b)),
            ("minimum", ops.minimum(x, y), np.minimum(a, b)),
            ("where", ops.where(x < y, x, y), np.where(a < b, a, b)),
            ("square", ops.square(x), np.square(a)),
            ("amax", ops.amax(x), a.max()),
            ("amin", ops.amin(x), a.min()),
            ("clamp", ops.clamp(x, 3, 7), np.clip(a, 3, 7)),
        ):
            assert found.dtype == dtype, name
            np.testing.assert_array_equal(found.numpy(), wanted, name)
        for name, found, wanted in (("lt", x < y, a < b), ("eq", x == y, a == b), ("ge", x >= y, a >= b)):
            assert found.dtype == "bool", name
            np.testing.assert_array_equal(found.numpy(), wanted, name)
        assert ops.sum(x).item() == int(a.sum(dtype=np.int64))
        assert ops.prod(x + 1).item() == int((a + a.dtype.type(1)).prod(dtype=np.int64))


@pytest.mark.parametrize("dtype", EACH_INTEGER)
def test_integers_shift_as_numpys_and_lose_what_leaves_the_dtype(dtype, engine):
    least, most = dtypes.integer_range(dtype)
    bits = 8 * dtypes.itemsize(dtype)
    a, b = np.repeat(np.array([least, most, 1, 5], dtype), 3), np.tile(np.array([0, 1, bits - 1], dtype), 4)
    x, y = Tensor.from_host(a), Tensor.from_host(b)
    np.testing.assert_array_equal((x << y).numpy(), a << b)
    np.testing.assert_array_equal((x >> y).numpy(), a >> b)
    np.testing.assert_array_equal((x << 99).numpy(), 0)
    np.testing.assert_array_equal((x >> 99).numpy(), np.where(a < 0, -1, 0))
    powers = Tensor.from_host(np.array([0, 1, 2, 3, 5], dtype))
    with np.errstate(all="ignore"):
        base = np.array([2, 3, 7, most, 1], dtype)
        np.testing.assert_array_equal((Tensor.from_host(base) ** powers).numpy(), base ** powers.numpy())


@pytest.mark.parametrize("dtype", EACH_INTEGER)
def test_integers_are_stored_moved_and_sorted(dtype, engine):
    least, most = dtypes.integer_range(dtype)
    data = np.array([[3, most, least, 0], [1, most - 1, 5, least]], dtype)
    x = Tensor.from_host(data)
    assert x.dtype == dtype
    assert x.nbytes == data.nbytes
    assert Tensor.from_host(x).dtype == dtype
    for name, found, wanted in (
        ("numpy", x, data),
        ("transpose", x.T, data.T),
        ("slice", x[:, 1:3], data[:, 1:3]),
        ("index", x[[1, 0, 1]], data[[1, 0, 1]]),
        ("mask", x[x > 2], data[data > 2]),
        (
            "gather",
            ops.gather(x, 1, Tensor.from_host(np.array([[0, 3], [1, 1]]))),
            np.take_along_axis(data, np.array([[0, 3], [1, 1]]), 1),
        ),
        ("concatenate", ops.cat([x, x], 0), np.concatenate([data, data])),
        ("sort", ops.sort(x, axis=1)[0], np.sort(data, 1)),
        ("topk", ops.topk(x, 2)[0], np.sort(data, 1)[:, :1:-1]),
        ("unique", ops.unique(x), np.unique(data)),
        ("cummax", ops.cummax(x, 1)[0], np.maximum.accumulate(data, 1)),
        ("flip", ops.flip(x, 1), np.flip(data, 1)),
        ("full", Tensor.full((3,), most, dtype), np.full(3, most, dtype)),
        ("pad", ops.pad(x, (1, 1)), np.pad(data, ((0, 0), (1, 1)))),
    ):
        assert found.dtype == dtype, name
        np.testing.assert_array_equal(found.numpy(), wanted, name)
    np.testing.assert_array_equal(ops.argsort(x, axis=1).numpy(), np.argsort(data, 1, kind="stable"))
    np.testing.assert_array_equal(ops.argmax(x, 1).numpy(), np.argmax(data, 1))
    x[0, 0] = most
    assert x[0, 0].item() == most
    assert x.tolist()[0][0] == most
    np.testing.assert_array_equal(ops.searchsorted(ops.sort(x)[0], x).shape, x.shape)


@pytest.mark.parametrize("source", dtypes.SUPPORTED)
def test_conversion_to_integers_keeps_the_low_bits(source, engine):
    for narrow in (True, False):  # a kernel with 8-byte values has no vectors
        targets = [name for name in INTS if (dtypes.itemsize(name) < 8) == narrow]
        if source in INTS:
            least, most = dtypes.integer_range(source)
            numbers = [least, most, 0, 1, most // 3, max(least, -2)] * 3
        elif source == "bool":
            numbers = [False, True] * 9
        else:
            # The conversion of a float out of the range of int64, or for narrow integers of int32, is not defined.
            numbers = [0.0, 1.75, -1.75, 120.0, -3.0, 2.0**15] * 3
        values = np.array(numbers, dtypes.numpy_dtype(source) if source != "bfloat16" else np.float32)
        x = Tensor.from_host(values, source)
        for target, found in zip(targets, engine.run([cast(Load(0, source), name) for name in targets], (x,))):
            assert found.dtype == target
            kept = 2 ** (8 * dtypes.itemsize(target))
            assert [number % kept for number in found.tolist()] == [int(number) % kept for number in values.tolist()]


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_conversion_of_large_floats_to_unsigned_integers(source, engine):
    numbers = [2.0**31, 2.0**32 - 2.0**9, 3e9]
    x = Tensor.from_host(np.array(numbers), source)
    assert x.astype("uint32").tolist() == [int(number) for number in numbers]
    large = [2.0**31, 2.0**63, 2.0**64 - 2.0**41]
    assert Tensor.from_host(np.array(large), source).astype("uint64").tolist() == [int(number) for number in large]


def test_promotion_refuses_nothing_and_nonsense():
    with pytest.raises(DTypeError):
        dtypes.promote()
    with pytest.raises(DTypeError):
        dtypes.promote("float32", "complex64")


def _nearest_even_bfloat16(value: np.float32) -> int:
    """Returns, slowly and plainly, the closer of the two neighbours in exact arithmetic, the even pattern in a tie."""
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


@pytest.mark.parametrize("name", dtypes.SUPPORTED)
def test_a_dtype_is_itself_whatever_its_text(name):
    made = dtypes.OBJECTS[name]
    facts = (made.itemsize, made.is_floating_point, made.is_signed)
    use_pytorch_names()
    try:
        assert str(made) == f"{made}" == repr(made) == f"torch.{name}"
        assert made == name
        assert hash(made) == hash(name)
        assert pickle.loads(pickle.dumps(made)) is made
        assert (made.itemsize, made.is_floating_point, made.is_signed) == facts
        assert dtypes.canonical(made) == dtypes.canonical(str(made)) == name
        assert type(dtypes.canonical(made)) is str
        assert Tensor.zeros((1,), made).dtype is made
    finally:
        use_pytorch_names(False)
    assert (str(made), f"{made}", repr(made)) == (name, name, f"netcl.{name}")


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
