"""Attention of one token to a cache, against float64."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.backend.opencl.kernels.softmax_attention import cached_attention as kernels
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.packed import quantize
from netcl.core.testing.conformance import masked

HEADS, KV, SIZE = 6, 2, 16


def problem(used, places, dim=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    rows = len(used)
    x = rng.standard_normal((rows, (HEADS + 2 * KV) * SIZE))
    cache = rng.standard_normal((2, rows, KV, places, SIZE))
    angles = np.arange(places)[:, None] * 0.3 ** np.arange(dim // 2)
    return x, cache, np.array(used), np.concatenate([np.cos(angles), np.sin(angles)], 1)


def exact(x, cache, used, turns, norms=(), scale=0.3, window=0, cap=0.0, eps=1e-6):
    """Returns the result and the new cache, in float64."""
    keys, values = cache.copy()
    half = turns.shape[1] // 2
    results = []
    for n, row in enumerate(x.reshape(len(used), -1, SIZE)):
        q, k, v = row[:HEADS].copy(), row[HEADS:-KV].copy(), row[-KV:]
        for part, norm in zip((q, k), norms):
            part /= np.sqrt((part**2).mean(-1, keepdims=True) + eps)
            part *= norm
        c, s = turns[used[n], :half], turns[used[n], half:]
        for part in (q, k):
            a, b = part[:, :half].copy(), part[:, half : 2 * half].copy()
            part[:, :half], part[:, half : 2 * half] = a * c - b * s, b * c + a * s
        keys[n, :, used[n]], values[n, :, used[n]] = k, v
        oldest = max(0, used[n] + 1 - window) if window else 0
        for head in range(HEADS):
            seen = slice(oldest, used[n] + 1)
            scores = keys[n, head // (HEADS // KV), seen] @ q[head] * scale
            scores = cap * np.tanh(scores / cap) if cap else scores
            weights = np.exp(scores - scores.max())
            results.append(weights / weights.sum() @ values[n, head // (HEADS // KV), seen])
    return np.reshape(results, (len(used), -1)), np.stack([keys, values])


def computed(given, norms=(), dtype="float32", **options):
    x, cache, used, turns = given
    tables = [Tensor.from_host(table, "float32").to(dtype) for table in cache.astype(np.float32)]
    tensors = [Tensor.from_host(each.astype(np.float32)) for each in (x, turns, *norms)]
    y = ops.cached_attention(
        tensors[0], *tables, Tensor.from_host(used.astype(np.int32)), tensors[1], *tensors[2:], **options
    )
    return y.numpy(), np.stack([table.to("float32").numpy() for table in tables])


def check(given, tolerance=2e-5, norms=(), dtype="float32", **options):
    options = {"scale": 0.3} | options
    y, cache = computed(given, norms, dtype, **options)
    wanted, filled = exact(*given, norms=norms, **options)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=tolerance)
    np.testing.assert_allclose(cache, filled, rtol=1e-2 if dtype == "bfloat16" else 1e-3, atol=tolerance)


@pytest.mark.parametrize("used", [[0], [5, 0, 7], [299, 256]])
def test_values_are_near_float64(engine, used):
    check(problem(used, max(used) + 1))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 3e-3), ("bfloat16", 3e-2)])
def test_a_cache_of_sixteen_bits(engine, dtype, tolerance):
    check(problem([20, 3], 40), tolerance, dtype=dtype)


def packed_cache(cache):
    """Returns keys and values in Q8_0, int8, and their scales."""
    *shape, size = cache.shape
    tables = [quantize(table.reshape(-1, size).astype(np.float32), "Q8_0") for table in cache]
    scales = [table.parts[0].reshape(*shape[1:], size // 32) for table in tables]
    return [table.parts[1].reshape(*shape[1:], size) for table in tables], scales


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("used", [[0, 7], [280, 3]])
def test_a_cache_in_q8_0(handle, monkeypatch, used, is_masked):
    """The result is that of the cache's numbers; those of the new token are within half a step of its scale."""
    monkeypatch.setitem(globals(), "SIZE", 64)
    with masked(handle, is_cpu=False) if is_masked else nullcontext():
        x, cache, places, turns = problem(used, max(used) + 1, dim=64)
        tables, scales = packed_cache(cache)
        norms = np.random.default_rng(1).uniform(0.5, 2, (2, 64))

        def numbers():
            pairs = zip(tables, scales)
            return np.stack([t.numpy() * np.repeat(s.numpy().astype(np.float64), 32, -1) for t, s in pairs])

        before = numbers()
        wanted, filled = exact(x, before, places, turns, norms)
        tensors = [Tensor.from_host(each.astype(np.float32)) for each in (x, turns, *norms)]
        at = Tensor.from_host(places.astype(np.int32))
        y = ops.cached_attention(tensors[0], *tables, at, tensors[1], *scales, *tensors[2:], scale=0.3)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=0, atol=3e-5)
        after, largest = numbers(), np.abs(filled).reshape(*filled.shape[:-1], 2, 32).max(-1)
        assert (np.abs(after - filled) <= np.repeat(largest, 32, -1) * (0.5 / 127 + 2e-3)).all()
        is_new = np.arange(max(used) + 1)[:, None] == places[:, None, None, None]
        np.testing.assert_array_equal(
            after[:, ~np.broadcast_to(is_new, after.shape[1:])], before[:, ~np.broadcast_to(is_new, after.shape[1:])]
        )
        assert np.abs(y.numpy() - exact(x, cache, places, turns, norms)[0]).max() < 0.04  # of unrounded keys


@pytest.mark.parametrize("options", [{"window": 7}, {"cap": 0.5}, {"window": 1000, "eps": 0.1}])
def test_norms_windows_caps_and_heads_that_turn_in_part(engine, options):
    norms = np.random.default_rng(1).uniform(0.5, 2, (2, SIZE))
    check(problem([30, 2], 48, dim=8), norms=tuple(norms), **options)


@pytest.mark.parametrize("is_cpu", [True, False])
def test_parts_of_the_keys(handle, monkeypatch, is_cpu):
    """Flash decoding: a head has several groups; some of them see no key."""
    if handle.backend == "cpu":
        pytest.skip("needs the level opencl-kernels: NumPy has no groups")
    monkeypatch.setattr(kernels, "_CHUNK", 16)
    monkeypatch.setattr(kernels, "parts_of", lambda groups, places, units: 5)
    kernels.program.cache_clear()
    with masked(handle, is_cpu=is_cpu):
        for used in ([0, 3], [130, 64]):
            check(problem(used, 144))
        check(problem([130], 144), norms=tuple(np.random.default_rng(1).uniform(0.5, 2, (2, SIZE))), window=40)
    kernels.program.cache_clear()


def test_the_number_of_parts():
    assert kernels.parts_of(9, 256, 2) == 1
    assert kernels.parts_of(32, 8192, 132) == 32
    assert kernels.parts_of(32, 512, 132) == 2


def test_wrong_arguments_say_what_is_expected(engine):
    x, cache, used, turns = (Tensor.from_host(np.float32(each)) for each in problem([2], 4))
    keys, values, places = cache[0], cache[1], used.to("int32")
    with pytest.raises(ShapeError, match=r"expected x \(rows, \(heads \+ 2 kv heads\) \* size\)"):
        ops.cached_attention(x[:, :40], keys, values, places, turns, scale=1.0)
    with pytest.raises(ShapeError, match="expected turns of at least 4 places"):
        ops.cached_attention(x, keys, values, places, turns[:3], scale=1.0)
    with pytest.raises(ShapeError, match=r"expected two scales \(1, 2, 4, 0\) in float16 for a cache in int8"):
        ops.cached_attention(x, keys.to("int8"), values.to("int8"), places, turns, scale=1.0)
    with pytest.raises(DTypeError, match="used in int32, got float32"):
        ops.cached_attention(x, keys, values, used, turns, scale=1.0)
