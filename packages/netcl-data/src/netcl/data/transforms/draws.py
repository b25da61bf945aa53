"""The random numbers of transforms, from NumPy's global generator unless another source is set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Draws(Protocol):
    """A source of random numbers for transforms."""

    def chance(self) -> float:
        """Returns a number in [0, 1), which a transform compares with its probability."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """Returns a number of [low, high)."""
        ...

    def integer(self, low: int, high: int) -> int:
        """Returns an integer of [low, high)."""
        ...

    def permutation(self, n: int) -> list[int]:
        """Returns 0 to n - 1 in random order."""
        ...

    def normal(self, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        """Returns numbers of the standard normal distribution, float32."""
        ...

    def weighted(self, weights: Sequence[float]) -> int:
        """Returns an index of ``weights``, with probabilities in their proportion."""
        ...


class NumpyDraws:
    """Numbers of ``numpy.random``'s global generator, which the DataLoader seeds for each sample."""

    def chance(self) -> float:
        return float(np.random.random_sample())

    def uniform(self, low: float, high: float) -> float:
        return float(np.random.uniform(low, high))

    def integer(self, low: int, high: int) -> int:
        return int(np.random.randint(low, high))

    def permutation(self, n: int) -> list[int]:
        order: list[int] = np.random.permutation(n).tolist()
        return order

    def normal(self, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        drawn: Any = np.random.standard_normal(tuple(shape))
        return np.asarray(drawn, np.float32)

    def weighted(self, weights: Sequence[float]) -> int:
        bounds = np.cumsum(np.asarray(weights, np.float64))
        return int(np.searchsorted(bounds, np.random.random_sample() * bounds[-1], side="right"))


_source: list[Draws] = [NumpyDraws()]


def current() -> Draws:
    """Returns the source that transforms draw from."""
    return _source[0]


def use_draws(source: Draws) -> Draws:
    """Sets the source that all transforms of this process draw from; returns the one before."""
    before = _source[0]
    _source[0] = source
    return before
