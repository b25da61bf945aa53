"""Random numbers with NumPy: Philox, the same words as on OpenCL devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store
from netcl.core.storage.data import TensorData

# Bits of a uniform number: as many as a dtype holds below one.
UNIFORM_BITS = {"float32": 24, "float64": 24, "float16": 11, "bfloat16": 8}
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox(counter: Array, key: int) -> Array:
    """Returns Philox4x32-10 words (n, 4), uint32, for counters (n, 4) of uint32 and a 64-bit key. Salmon, Moraes, Dror
    and Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC 2011.
    """
    c0, c1, c2, c3 = (counter[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(10):
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (second >> _SHIFT) ^ c1 ^ np.uint64(k0), (first >> _SHIFT) ^ c3 ^ np.uint64(k1)
        c1, c3 = second & _MASK, first & _MASK
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def _words(state: Array, offset: int, size: int) -> Array:
    count = -(-size // 4)
    seed, base = int(state[0]) & 2**64 - 1, int(state[1]) & 2**64 - 1
    start = np.uint64((base + offset) & 2**64 - 1)
    position = np.arange(count, dtype=np.uint64) + start
    zero = np.zeros_like(position)
    return philox(np.stack([position & _MASK, position >> _SHIFT, zero, zero], axis=1), seed)


def _log(words: Array) -> Array:
    """Returns log(((w >> 8) + 1) / 2**24), by the polynomial of Cephes' logf, in the order of the kernel."""
    f = np.float32
    u = ((words >> 8) + 1).astype(f) * f(2.0**-24)
    bits = u.view(np.uint32)
    e = ((bits >> 23).astype(np.int32) - 126).astype(f)
    m = ((bits & np.uint32(0x007FFFFF)) | np.uint32(0x3F000000)).view(f)
    small = m < f(0.707106781186547524)
    e = np.where(small, e - f(1), e)
    m = np.where(small, m + m, m) - f(1)
    z = m * m
    y = m * f(7.0376836292e-2) - f(1.1514610310e-1)
    for c in (1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
              -2.4999993993e-1, 3.3333331174e-1):  # fmt: skip
        y = y * m + f(c)
    y = y * m * z
    y = y + e * f(-2.12194440e-4)
    y = y - z * f(0.5)
    return (m + y) + e * f(0.693359375)  # type: ignore[no-any-return]


def _turn(words: Array) -> tuple[Array, Array]:
    """Returns the cosine and sine of 2 pi (w >> 8) / 2**24, by Cephes' polynomials, in the order of the kernel."""
    f = np.float32
    u = (words >> 8).astype(f) * f(2.0**-24)
    quarter = (u * f(4) + f(0.5)).astype(np.int32)
    x = (u - quarter.astype(f) * f(0.25)) * f(6.283185307179586)
    z = x * x
    s = z * f(-1.9515295891e-4) + f(8.3321608736e-3)
    s = s * z - f(1.6666654611e-1)
    s = s * z * x + x
    c = z * f(2.443315711809948e-5) - f(1.388731625493765e-3)
    c = c * z + f(4.166664568298827e-2)
    c = c * z * z - z * f(0.5) + f(1)
    odd, turned = (quarter & 1) != 0, (quarter >> 1 & 1) != 0
    a, b = np.where(odd, -s, c), np.where(odd, c, s)
    return np.where(turned, -a, a), np.where(turned, -b, b)


def _uniform(words: Array, dtype: str) -> Array:
    bits = UNIFORM_BITS[dtype]
    return (words >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)  # type: ignore[no-any-return]


def _normal(words: Array) -> Array:
    values = np.empty(words.shape, np.float32)
    for i in (0, 2):
        radius = np.sqrt(_log(words[:, i]) * np.float32(-2))
        cosine, sine = _turn(words[:, i + 1])
        values[:, i], values[:, i + 1] = radius * cosine, radius * sine
    return values


def _draw(kind: str, state: Array, out: Array, dtype: str, offset: int, low: int, high: int) -> None:
    words = _words(state, offset, out.size)
    if kind == "uniform":
        values = _uniform(words, dtype)
    elif kind == "normal":
        values = _normal(words)
    elif kind == "randint":
        values = (words.astype(np.uint64) * np.uint64(high - low) >> _SHIFT).astype(np.int64) + low
    elif kind == "kept":
        values = words >> 8 >= low
    else:
        values = words.view(np.int32)
    store(out, values.reshape(-1)[: out.size].reshape(out.shape), dtype)


def random(
    engine: Any, kind: str, shape: Sequence[int], dtype: str, *, offset: int, low: int = 0, high: int = 0
) -> TensorData:
    """Returns Philox4x32-10 numbers from the engine's ``rng_state`` (seed, base); element i is word i % 4 of counter
    base + ``offset`` + i // 4, and ``ceil(size / 4)`` counters are used.

    ``uniform`` is in [0, 1) in steps of 2**-24 (2**-11 float16, 2**-8 bfloat16), ``normal`` by Box and Muller from
    pairs of words, ``bits`` the word itself (int32), ``randint`` in [``low``, ``high``) by (word * range) >> 32,
    ``kept`` (bool) true if the uniform number of 24 bits is at least ``low`` * 2**-24.
    """
    out: TensorData = engine.empty(tuple(shape), dtype)
    if out.size:
        engine.launch(_draw, kind, engine.rng_state.array, out.array, dtype, offset, low, high)
    return out
