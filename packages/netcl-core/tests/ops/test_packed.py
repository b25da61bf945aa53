"""Packed matrices: their numbers against the package gguf (stored, packed_blocks.npz), products against float64."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, packed
from netcl.core.backend.opencl.kernels.packed_products import packed as kernels
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.testing.conformance import masked
from netcl.runtime.capture import capture

STORED = np.load(Path(__file__).with_name("packed_blocks.npz"))
NAMES = sorted(packed.FORMATS)
# Of the largest result. CPUs round few rows of x to sixteen bits.
NEAR = 1e-4
PACKABLE = ("Q4_0", "Q4_K", "Q8_0")


def matrix(name, rows, blocks, seed=0):
    """Returns random blocks of a format, with scales next to 1, as a PackedTensor and its numbers."""
    row, rng = packed.FORMATS[name], np.random.default_rng(seed)
    data = rng.integers(0, 256, (rows * blocks, row.nbytes), dtype=np.uint8)
    fields = data.reshape(-1).view(row.layout)
    for field in row.stored:
        if field.dtype == "float16":
            fields[field.name] = rng.uniform(-1, 1, fields[field.name].shape)
        elif field.name == "e":
            fields[field.name] = rng.integers(120, 132, fields[field.name].shape)
    w = packed.PackedTensor.from_blocks(data, (rows, blocks * row.block), name)
    return w, w.unpack().numpy().astype(np.float64)


def close(found, exact, tolerance):
    np.testing.assert_allclose(found, exact, rtol=0, atol=tolerance * np.abs(exact).max(initial=1e-30))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_equal_those_of_gguf(engine, name):
    blocks, numbers = STORED[f"{name}_blocks"], STORED[f"{name}_numbers"]
    assert blocks.shape[1] == packed.FORMATS[name].nbytes
    w = packed.PackedTensor.from_blocks(blocks.tobytes(), numbers.shape, name)
    np.testing.assert_array_equal(w.unpack().numpy().view(np.uint32), numbers.view(np.uint32))
    np.testing.assert_array_equal(w.to_blocks(), blocks.reshape(-1))
    ids = np.array([[2, 0], [1, 2]])
    np.testing.assert_array_equal(w.rows(Tensor.from_host(ids)).numpy().view(np.uint32), numbers.view(np.uint32)[ids])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes_are_rounded_once(engine, name, dtype):
    if dtype == "float64" and engine.name == "cl" and not engine._has_fp64:
        pytest.skip("needs float64")
    w, numbers = matrix(name, 3, 2)
    wanted = Tensor.from_host(numbers.astype(np.float32)).to(dtype)
    np.testing.assert_array_equal(w.unpack(dtype).numpy(), wanted.numpy())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 37])
@pytest.mark.parametrize("blocks", [2, 11])
def test_products_are_near_float64(engine, name, count, blocks):
    w, numbers = matrix(name, 37, blocks)
    x = np.random.default_rng(1).standard_normal((count, w.shape[1])).astype(np.float32)
    bias = np.arange(37, dtype=np.float32)
    found = ops.packed_linear(Tensor.from_host(x), w, Tensor.from_host(bias)).numpy()
    close(found, x.astype(np.float64) @ numbers.T + bias, NEAR)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 3, 7])
def test_products_as_a_gpu(handle, name, count):
    if handle.backend == "cpu":
        pytest.skip("needs the level opencl-kernels: NumPy has no groups")
    with masked(handle, is_cpu=False):
        w, numbers = matrix(name, 13, 5 if packed.FORMATS[name].block < 256 else 1)
        x = np.random.default_rng(1).standard_normal((count, w.shape[1])).astype(np.float32)
        close(ops.packed_linear(Tensor.from_host(x), w).numpy(), x.astype(np.float64) @ numbers.T, 2e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "last_bit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_rows_of_two_digits_as_a_gpu(handle, name, dtype, last_bit):
    """Beyond the rounding of the result, the error is that of x in sixteen bits."""
    if handle.backend == "cpu":
        pytest.skip("needs the level opencl-kernels: NumPy has no groups")
    with masked(handle, is_cpu=False):
        w, numbers = matrix(name, 13, 8 if packed.FORMATS[name].block < 256 else 1)
        numbers = numbers.astype(np.float64)
        x = np.random.default_rng(1).standard_normal((2, w.shape[1])) * 2.0 ** np.arange(-12, -4).repeat(
            w.shape[1] // 8
        )
        x = Tensor.from_host(x.astype(np.float32)).to(dtype)
        exact = np.asarray(x.to("float64").numpy()) @ numbers.T
        error = np.abs(np.asarray(ops.packed_linear(x, w).to("float64").numpy()) - exact)
        assert (error <= last_bit * np.abs(exact) + NEAR * np.abs(exact).max()).all()


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "Q6_K"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 3e-3), ("bfloat16", 2e-2), ("float64", 1e-12)])
def test_products_in_other_dtypes(engine, name, dtype, tolerance):
    if dtype == "float64" and engine.name == "cl" and not engine._has_fp64:
        pytest.skip("needs float64")
    w, numbers = matrix(name, 11, 2)
    for count in (1, 7):
        x = Tensor.from_host(np.random.default_rng(1).standard_normal((count, w.shape[1])), "float64").to(dtype)
        found = ops.packed_linear(x, w)
        assert found.dtype == dtype
        close(np.asarray(found.to("float64").numpy()), np.asarray(x.to("float64").numpy()) @ numbers.T, tolerance)


def test_products_with_the_matrix_itself(engine):
    w, numbers = matrix("Q5_K", 7, 1)
    for count in (1, 4):
        x = np.random.default_rng(2).standard_normal((count, 7)).astype(np.float32)
        found = ops.table.FUNCTIONS["packed_product"](Tensor.from_host(x), *w.parts, format=w.format, turned=True)
        close(found.numpy(), x.astype(np.float64) @ numbers, 2e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_large_matrices_are_unpacked_by_panels(engine, turned, monkeypatch):
    if engine.name != "cl":
        pytest.skip("needs the level opencl-kernels")
    monkeypatch.setattr(kernels, "_PANEL", 5 * 64)
    w, numbers = matrix("Q4_1", 13, 2)
    x = np.random.default_rng(2).standard_normal((40, 13 if turned else 64)).astype(np.float32)
    product = ops.table.FUNCTIONS["packed_product"]
    found = product(Tensor.from_host(x), *w.parts, format=w.format, turned=turned).numpy()
    close(found, x.astype(np.float64) @ (numbers if turned else numbers.T), 2e-6)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("is_masked", [False, True])
def test_numbers_that_are_not_finite_have_the_products_of_floats(handle, name, is_masked):
    with masked(handle, is_cpu=False) if is_masked else nullcontext():
        w, numbers = matrix(name, 6, 2)
        for value in (np.nan, np.inf, -np.inf, 3e38):
            x = np.ones((2, 64), np.float32)
            x[1, 40:42] = value
            found = ops.packed_linear(Tensor.from_host(x), w).numpy()
            with np.errstate(over="ignore", invalid="ignore"):
                exact = (x[:, None] * numbers.astype(np.float32)).sum(-1)
            close(found[0], exact[0], NEAR)
            # Two products beyond float32 with other signs are NaN, or infinite if one is added before it is rounded.
            either = np.isnan(exact[1]) & np.isfinite(value)
            assert not np.isfinite(found[1][either]).any()
            np.testing.assert_allclose(found[1][~either], exact[1][~either], rtol=1e-5)


def around(x, numbers, norm=None, bias=None, residual=None, gate="", eps=1e-6):
    """Returns in float64 what packed_linear computes."""
    x = x.astype(np.float64)
    if norm is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * norm
    y = x @ numbers.T + (0 if bias is None else bias)
    if gate:
        first, second = np.split(y, 2, -1)
        inner = first if gate == "silu" else 1.5957691216 * (first + 0.044715 * first**3)
        with np.errstate(over="ignore"):
            y = first / (1 + np.exp(-inner)) * second
    return y + (0 if residual is None else residual)


def extras(rng, count, rows, columns, gate):
    sizes = {"norm": columns, "bias": rows, "residual": (count, rows // 2 if gate else rows)}
    return {name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}


@pytest.mark.parametrize("name", ["Q4_1", "Q6_K"])
@pytest.mark.parametrize("gate", ["", "silu", "gelu"])
def test_one_launch_has_the_norm_the_bias_the_gate_and_the_residual(engine, name, gate):
    w, numbers = matrix(name, 38, 3)
    rng = np.random.default_rng(5)
    for count in (1, 4, 5):
        x = rng.standard_normal((count, w.shape[1])).astype(np.float32)
        given = extras(rng, count, 38, w.shape[1], gate)
        for chosen in (tuple(given), ("residual",), ("bias",)) if count == 1 else (tuple(given),):
            some = {key: given[key] for key in chosen}
            found = ops.packed_linear(
                Tensor.from_host(x), w, **{key: Tensor.from_host(v) for key, v in some.items()}, gate=gate
            )
            close(found.numpy(), around(x, numbers, **some, gate=gate), 3 * NEAR)


@pytest.mark.parametrize("name", ["Q4_1", "Q6_K"])
def test_one_launch_as_a_gpu(handle, name):
    if handle.backend == "cpu":
        pytest.skip("needs the level opencl-kernels: NumPy has no groups")
    with masked(handle, is_cpu=False):
        w, numbers = matrix(name, 14, 3)
        rng = np.random.default_rng(6)
        for count, gate in ((1, "silu"), (3, "")):
            x = rng.standard_normal((count, w.shape[1])).astype(np.float32)
            given = extras(rng, count, 14, w.shape[1], gate)
            tensors = {key: Tensor.from_host(value) for key, value in given.items()}
            close(
                ops.packed_linear(Tensor.from_host(x), w, **tensors, gate=gate).numpy(),
                around(x, numbers, **given, gate=gate),
                4e-6,
            )


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 31, 32, 33, 64])
def test_all_counts_of_rows(engine, count):
    for name in NAMES:
        w, numbers = matrix(name, 23, 1 if packed.FORMATS[name].block > 32 else 9)
        x = np.random.default_rng(count).standard_normal((count, w.shape[1])).astype(np.float32)
        close(ops.packed_linear(Tensor.from_host(x), w).numpy(), x.astype(np.float64) @ numbers.T, NEAR)


def test_eager_and_captured_products_are_equal_to_the_bit(engine):
    w, _ = matrix("Q4_1", 12, 4)
    rng = np.random.default_rng(7)
    given = {key: Tensor.from_host(value) for key, value in extras(rng, 2, 12, 128, "silu").items()}

    def layer(x):
        return ops.packed_linear(x, w, **given, gate="silu")

    x = Tensor.from_host(rng.standard_normal((2, 128)).astype(np.float32))
    np.testing.assert_array_equal(capture(layer, x).replay(x).numpy(), layer(x).numpy())


def test_rows_that_do_not_fit_the_local_memory(handle):
    if handle.backend == "cpu":
        pytest.skip("needs the level opencl-kernels")
    with masked(handle, local_mem_size=3072):
        w, numbers = matrix("Q4_1", 9, 50)
        for count in (1, 2):
            x = np.random.default_rng(1).standard_normal((count, 1600)).astype(np.float32)
            close(ops.packed_linear(Tensor.from_host(x), w).numpy(), x.astype(np.float64) @ numbers.T, NEAR)


def test_a_row_of_large_and_small_numbers(engine):
    """Each 32 neighbours have a scale of their own."""
    w, numbers = matrix("Q4_0", 5, 4)
    x = np.random.default_rng(2).standard_normal((1, 128)).astype(np.float32) * np.repeat([1e-20, 1e3, 1.0, 1e30], 32)
    x = x.astype(np.float32)
    x[0, 96:] = 0
    close(ops.packed_linear(Tensor.from_host(x), w).numpy(), x.astype(np.float64) @ numbers.T, NEAR)


def test_batches_and_nothing(engine):
    w, numbers = matrix("Q4_0", 5, 3)
    x = np.random.default_rng(3).standard_normal((2, 3, 96)).astype(np.float32)
    found = ops.packed_linear(Tensor.from_host(x), w).numpy()
    assert found.shape == (2, 3, 5)
    close(found, x.astype(np.float64) @ numbers.T, NEAR)
    assert ops.packed_linear(Tensor.from_host(x[0, 0]), w).shape == (5,)
    assert ops.packed_linear(Tensor.zeros((0, 96)), w).shape == (0, 5)
    empty = packed.PackedTensor.from_blocks(b"", (0, 96), "Q4_0")
    assert empty.unpack().shape == (0, 96)
    assert ops.packed_linear(Tensor.from_host(x), empty).shape == (2, 3, 0)
    assert packed.quantize(np.zeros((0, 64), np.float32), "Q8_0").shape == (0, 64)


@pytest.mark.parametrize("name", PACKABLE)
def test_packing_is_near_and_repeats(engine, name):
    x = STORED["x"]
    w = packed.quantize(Tensor.from_host(x), name)
    found = w.unpack().numpy()
    if name != "Q4_K":
        wanted = STORED[f"{name}_packed"]
        # A device may round a quotient that is next to a half the other way: one step of one number.
        differ = (w.to_blocks() != wanted.reshape(-1)).mean()
        assert differ < 1e-3
    # Parts of the largest number of a block; and 2 ** -25 for each step where float16 has no smaller scale.
    share, block, steps = {"Q4_0": (0.127, 32, 8), "Q4_K": (0.09, 256, 15 * 63), "Q8_0": (0.0045, 32, 127)}[name]
    error, largest = (np.abs(each).reshape(-1, block).max(1) for each in (found - x, x))
    assert (error <= share * largest + steps * 2.0**-25).all()
    np.testing.assert_array_equal(found[1], 0)
    assert packed.quantize(x, name).to_blocks().tolist() == w.to_blocks().tolist()


def test_q4_k_is_better_than_q4_0():
    x = np.random.default_rng(4).standard_normal((16, 512)).astype(np.float32)
    errors = {name: np.square(packed.quantize(x, name).unpack().numpy() - x).mean() for name in PACKABLE}
    assert errors["Q8_0"] < 0.01 * errors["Q4_K"] < 0.01 * 0.85 * errors["Q4_0"]


def test_other_devices_and_the_repr(handle):
    w, _ = matrix("Q6_K", 2, 1)
    there = w.to("cpu")
    assert str(there.device).startswith("cpu")
    np.testing.assert_array_equal(there.to_blocks(), w.to_blocks())
    assert "shape=(2, 256), format='Q6_K'" in repr(there)
    assert w.nbytes == 2 * packed.FORMATS["Q6_K"].nbytes


def test_wrong_arguments_say_what_is_expected(engine):
    data = bytes(3 * 18)
    with pytest.raises(ArgumentError, match="expected a packed format, one of Q4_0, .*, got 'Q3_K'"):
        packed.PackedTensor.from_blocks(data, (3, 32), "Q3_K")
    with pytest.raises(ShapeError, match="expected 54 bytes for 3 x 32 numbers of Q4_0, got 53"):
        packed.PackedTensor.from_blocks(data[:-1], (3, 32), "Q4_0")
    with pytest.raises(ShapeError, match="expected columns in whole blocks of 32, got 33"):
        packed.PackedTensor.from_blocks(data, (3, 33), "Q4_0")
    with pytest.raises(ShapeError, match="expected the shape of a matrix"):
        packed.PackedTensor.from_blocks(data, (3, 1, 32), "Q4_0")
    with pytest.raises(ArgumentError, match="expected bytes or an array of uint8, got float32"):
        packed.PackedTensor.from_blocks(np.zeros(54, np.float32), (3, 32), "Q4_0")
    w = packed.PackedTensor.from_blocks(data, (3, 32), "Q4_0")
    with pytest.raises(ShapeError, match=r"expected x of shape \(\.\.\., 32\), got \(2, 31\)"):
        ops.packed_linear(Tensor.zeros((2, 31)), w)
    with pytest.raises(TypeError, match="expected a PackedTensor as w, got Tensor; write packed.quantize"):
        ops.packed_linear(Tensor.zeros((2, 32)), Tensor.zeros((3, 32)))
    with pytest.raises(DTypeError, match="expected floating dtypes, got int64"):
        ops.packed_linear(Tensor.zeros((2, 32), "int64"), w)
    with pytest.raises(ArgumentError, match="expected one of Q8_0, Q4_0, Q4_K as format, got Q6_K"):
        packed.quantize(np.zeros((2, 256), np.float32), "Q6_K")
    with pytest.raises(ShapeError, match="whole blocks of 256, got shape"):
        packed.quantize(np.zeros((2, 32), np.float32), "Q4_K")
    with pytest.raises(DTypeError, match="expected floating dtypes, got int32"):
        packed.quantize(np.zeros((2, 32), np.int32), "Q8_0")
    with pytest.raises(ArgumentError, match=r"expected the 2 parts of Q4_0 \(d, qs\), got 1"):
        ops.table.FUNCTIONS["packed_unpack"](w.parts[0], format="Q4_0")
