"""Philox on the engines: the published vectors, the same bits everywhere, and the distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.backend.cpu import random as numpy_random
from netcl.core.dtypes import from_bfloat16

SEED, BASE = 0x0123456789ABCDEF, 2**32 - 3  # the counter carries into its second word after three steps
VECTORS = [  # counter, key, words: kat_vectors of Random123 for philox4x32-10
    ([0, 0, 0, 0], 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        0x299F31D0A4093822,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.fixture
def seeded(engine: Any) -> Any:
    before = engine.read(engine.rng_state)
    engine.write(engine.rng_state, np.array([SEED, BASE], np.int64))
    yield engine
    engine.write(engine.rng_state, before)


def words(offset: int, size: int) -> Any:
    """Words by the definition, one counter after the other."""
    rows = []
    for i in range(-(-size // 4)):
        counter = BASE + offset + i
        rows.append(numpy_random.philox(np.array([[counter & 0xFFFFFFFF, counter >> 32, 0, 0]], np.uint32), SEED)[0])
    return np.concatenate(rows)[:size]


def test_the_published_vectors() -> None:
    for counter, key, expected in VECTORS:
        assert numpy_random.philox(np.array([counter], np.uint32), key)[0].tolist() == expected


def test_an_engine_draws_the_published_vector(engine: Any) -> None:
    before = engine.read(engine.rng_state)
    engine.write(engine.rng_state, np.zeros(2, np.int64))
    drawn = engine.read(engine.random("bits", (4,), "int32", offset=0)).view(np.uint32)
    engine.write(engine.rng_state, before)
    assert drawn.tolist() == VECTORS[0][2]


@pytest.mark.parametrize("shape", [(), (1,), (5,), (31,), (32,), (33,), (37, 3), (0, 4)])
def test_bits_and_uniform_are_words(seeded: Any, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    expected = words(7, size) if size else np.zeros(0, np.uint32)
    bits = seeded.random("bits", shape, "int32", offset=7)
    assert bits.shape == shape
    assert np.array_equal(seeded.read(bits).reshape(-1).view(np.uint32), expected)
    uniform = seeded.read(seeded.random("uniform", shape, "float32", offset=7))
    assert np.array_equal(uniform.reshape(-1), (expected >> 8).astype(np.float32) * np.float32(2.0**-24))


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8), ("float64", 24)])
def test_uniform_in_other_dtypes_stays_below_one(seeded: Any, dtype: str, bits: int) -> None:
    drawn = seeded.read(seeded.random("uniform", (5000,), dtype, offset=1))
    values = (from_bfloat16(drawn) if dtype == "bfloat16" else drawn).astype(np.float64)
    assert np.array_equal(values, (words(1, 5000) >> (32 - bits)) * 2.0**-bits)
    assert values.max() < 1


def test_an_offset_continues_where_another_draw_ended(seeded: Any) -> None:
    whole = seeded.read(seeded.random("uniform", (40,), "float32", offset=0))
    rest = seeded.read(seeded.random("uniform", (20,), "float32", offset=5))
    assert np.array_equal(whole[20:], rest)


def test_the_base_on_the_device_moves_the_stream(seeded: Any) -> None:
    later = seeded.read(seeded.random("bits", (64,), "int32", offset=9))
    seeded.write(seeded.rng_state, np.array([SEED, BASE + 9], np.int64))
    assert np.array_equal(later, seeded.read(seeded.random("bits", (64,), "int32", offset=0)))


def test_normal_is_box_muller_to_four_places(seeded: Any) -> None:
    size = 40000
    drawn = seeded.read(seeded.random("normal", (size,), "float32", offset=3))
    w = words(3, size).reshape(-1, 4)
    expected = np.empty((size // 4, 4))
    for i in (0, 2):
        radius = np.sqrt(-2 * np.log(((w[:, i] >> 8) + 1) * 2.0**-24))
        turn = 2 * np.pi * (w[:, i + 1] >> 8) * 2.0**-24
        expected[:, i], expected[:, i + 1] = radius * np.cos(turn), radius * np.sin(turn)
    # Units in the last place of the radius: a cosine near its zero keeps the rounding of its angle.
    radius = np.repeat(np.hypot(expected[:, ::2], expected[:, 1::2]), 2, axis=1)
    places = np.abs(drawn.reshape(-1, 4) - expected) / np.spacing(np.maximum(radius, 1e-30).astype(np.float32))
    assert places.max() < 4
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.std() - 1) < 0.02


def test_normal_is_the_same_on_every_backend_to_four_places(seeded: Any) -> None:
    drawn = seeded.read(seeded.random("normal", (4001,), "float32", offset=11))
    other = np.empty(4001, np.float32)
    numpy_random._draw("normal", np.array([SEED, BASE], np.int64), other, "float32", 11, 0, 0)
    assert (np.abs(drawn - other) <= 4 * np.spacing(np.abs(other))).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("low", "high"), [(-5, 17), (0, 1), (0, 2**31 - 1)])
def test_randint_covers_its_range_with_equal_bits_everywhere(seeded: Any, dtype: str, low: int, high: int) -> None:
    drawn = seeded.read(seeded.random("randint", (3000,), dtype, offset=2, low=low, high=high))
    expected = (words(2, 3000).astype(np.uint64) * np.uint64(high - low) >> np.uint64(32)).astype(np.int64) + low
    assert np.array_equal(drawn, expected)
    assert drawn.min() >= low
    assert drawn.max() < high
    if high - low == 22:
        assert len(np.unique(drawn)) == 22


def test_a_device_that_is_no_cpu(seeded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if seeded.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(seeded), "_traits", templates.Traits(False, 4, 32 * 1024))
    drawn = seeded.read(seeded.random("bits", (1001,), "int32", offset=7)).view(np.uint32)
    assert np.array_equal(drawn, words(7, 1001))
