"""Random numbers that depend on (seed, epoch, sample) only: the same for any batch size and number of workers."""

from __future__ import annotations

import random
import secrets
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from netcl.data.device_transfer import configured

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


class RandomSource(Protocol):
    """The interface that filters and augmentations need of ``rng=``: ``numpy.random.Generator`` and SampleRandom have
    it.
    """

    def random(self, size: Any = ...) -> Any:
        """Returns uniform float64 in [0, 1) of the given shape."""
        ...

    def beta(self, a: float, b: float) -> float:
        """Returns one number of the Beta(a, b) distribution."""
        ...


class SeedSource(Protocol):
    """The interface that ``generator=`` needs: ``netcl.Generator`` has it."""

    def draw_seed(self) -> int:
        """Returns a new seed at each call."""
        ...


def check_seed(seed: int | None, generator: SeedSource | None = None) -> int:
    """Returns a non-negative int: ``seed``, or one drawn from ``generator``.

    If both are None: NETCL_SEED if netcl.core is loaded and not seeded otherwise, a seed drawn from the generator that
    ``netcl.manual_seed`` seeds if that is loaded, else 63 random bits.
    """
    if generator is not None:
        if seed is not None:
            raise ValueError("give seed or generator, not both")
        if not hasattr(generator, "draw_seed"):
            raise TypeError(
                f"expected generator= to be a netcl.Generator, got {type(generator).__module__}."
                f"{type(generator).__name__}; write generator=nc.Generator().manual_seed(seed), or seed=seed"
            )
        return generator.draw_seed()
    if seed is None:
        configured_seed, process = configured("SEED"), _generator_of_process()
        if process is None or configured_seed is not None and process.initial_seed() == configured_seed:
            return secrets.randbits(63) if configured_seed is None else configured_seed
        return int(process.draw_seed())
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a non-negative int or None, got {seed!r}")
    return int(seed)


def _generator_of_process() -> Any:
    """Returns the generator that ``netcl.manual_seed`` seeds; None if it is not loaded."""
    return getattr(sys.modules.get("netcl.core.tensor.generator"), "default_generator", None)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns the finalizer of SplitMix64 (Steele, Lea, Flood 2014) of ``z``, elementwise; ``z`` has at least one
    dimension.
    """
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLY_1
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLY_2
    mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _sample_number(index: Any) -> int:
    """Returns a 64-bit number for a dataset key, which may be any object (samplers may yield names)."""
    if isinstance(index, (int, np.integer)):
        return int(index) & _MASK
    return zlib.crc32(repr(index).encode())


def sample_keys(seed: int, epoch: int, indices: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Returns one 64-bit key per sample, shape (n,): a hash of (seed, epoch, index)."""
    if isinstance(indices, np.ndarray) and indices.dtype.kind in "iu":
        numbers = indices.astype(np.int64).view(np.uint64)
    else:
        numbers = np.array([_sample_number(index) for index in indices], np.uint64)
    key = np.array([seed & _MASK], np.uint64)
    for part in (np.array([epoch & _MASK], np.uint64), numbers):
        # Hashing after each part makes (seed, epoch) and (epoch, seed) differ.
        key = _mix(_mix(key + _GOLDEN) + part * _GOLDEN)
    return key


class SampleRandom:
    """Uniform numbers for a batch: row i is an independent stream, fixed by (seed, epoch, indices[i]).

    A number is a hash of (key of the sample, count of draws so far), so a sample draws the same numbers in any batch.
    The streams do not depend on NumPy's version.
    """

    def __init__(self, seed: int, epoch: int, indices: Sequence[Any] | npt.NDArray[Any], stream: int = 0) -> None:
        self._keys = sample_keys(seed, epoch, indices)
        self._drawn = stream << 32  # numbers drawn so far; the offset keeps the streams disjoint

    def __len__(self) -> int:
        return len(self._keys)

    def random(self, size: int | tuple[int, ...] | None = None) -> npt.NDArray[np.float64]:
        """Returns uniform float64 in [0, 1); ``size`` is n or (n, ...) with n the number of samples (None: n)."""
        n = len(self._keys)
        shape = (n,) if size is None else (size,) if isinstance(size, int) else tuple(size)
        if not shape or shape[0] != n:
            raise ValueError(f"size must start with the number of samples, {n}, got {size!r}")
        columns = int(np.prod(shape[1:], dtype=np.int64))
        counters = np.arange(self._drawn + 1, self._drawn + 1 + columns, dtype=np.uint64)
        self._drawn += columns
        bits = _mix(self._keys[:, None] + counters * _GOLDEN)
        uniform: npt.NDArray[np.float64] = (bits >> np.uint64(11)).astype(np.float64)
        uniform *= 2.0**-53
        return uniform.reshape(shape)

    def batch_key(self) -> int:
        """Returns 64 bits that depend on the set of the batch's samples only."""
        return int(np.bitwise_xor.reduce(self._keys, initial=np.uint64(0)))

    def beta(self, a: float, b: float) -> float:
        """Returns one number of Beta(a, b) for the whole batch; it depends on the set of its samples only."""
        self._drawn += 1
        entropy = [self.batch_key(), self._drawn]
        return float(np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy))).beta(a, b))


def source_or_fresh(rng: RandomSource | None) -> RandomSource:
    """Returns ``rng``, or a new unseeded generator for None."""
    return np.random.default_rng() if rng is None else rng


def seed_globals(key: int) -> None:
    """Seeds ``random`` and ``numpy.random``, which the code of a dataset may draw from."""
    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)


@contextmanager
def preserved_globals() -> Iterator[None]:
    """Restores the states of ``random`` and ``numpy.random`` afterwards, so that an in-process loader does not change
    them.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
