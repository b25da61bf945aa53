"""PyTorch's CPU generator, for draws with PyTorch's numbers for a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from netcl.core.dtypes import TORCH, canonical

__all__ = ["MT19937"]


class MT19937:
    """A ``torch.Generator`` of the CPU; each draw returns an array of the host, float32 for bfloat16."""

    def __init__(self, seed: int = 67280421310721) -> None:
        self.source = torch.Generator()
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Sets the seed, taken modulo 2**64."""
        self.source.manual_seed(seed % 2**64)

    def initial_seed(self) -> int:
        """The seed that was set last."""
        return int(self.source.initial_seed())

    def get_state(self) -> Any:
        """The 5,056 bytes of ``torch.Generator.get_state``, an array."""
        return self.source.get_state().numpy().copy()

    def set_state(self, state: Any) -> None:
        """Sets the state from the bytes of ``get_state``; ValueError for others."""
        try:
            self.source.set_state(torch.from_numpy(np.array(state, np.uint8)))
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"this is no state of PyTorch's CPU generator: {error}") from None

    def _array(self, value: torch.Tensor) -> Any:
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()

    def randint(self, low: int, high: int, size: Any, dtype: str = "int64") -> Any:
        """Whole numbers in [low, high)."""
        value = torch.randint(low, high, tuple(size), generator=self.source, dtype=TORCH[canonical(dtype)])
        return self._array(value)

    def randperm(self, n: int, dtype: str = "int64") -> Any:
        """0 to n - 1 in random order."""
        return self._array(torch.randperm(n, generator=self.source).to(TORCH[canonical(dtype)]))

    def bernoulli(self, p: Any, dtype: str | None = None) -> Any:
        """1 with the probability at each place of the array ``p``, else 0."""
        given = torch.as_tensor(p)
        value = torch.bernoulli(given if given.is_floating_point() else given.float(), generator=self.source)
        return self._array(value.to(TORCH[canonical(dtype)]) if dtype else value)

    def multinomial(self, weights: Any, count: int, replacement: bool = False, dtype: str = "float32") -> Any:
        """Positions drawn in proportion to the weights of the last axis: ``count`` for each row, int64."""
        given = torch.as_tensor(weights).to(TORCH[canonical(dtype)])
        return self._array(torch.multinomial(given, count, replacement, generator=self.source))


def _filled(method: str, count: int, doc: str) -> Callable[..., Any]:
    """A draw of ``count`` parameters, a size and a dtype, by the method of ``torch.Tensor`` that fills in place."""

    def draw(self: MT19937, *given: Any) -> Any:
        parameters, size = given[:count], tuple(given[count])
        dtype = given[count + 1] if len(given) > count + 1 else "float32"
        made = torch.empty(size, dtype=TORCH[canonical(dtype)])
        return self._array(getattr(made, method)(*parameters, generator=self.source))

    draw.__doc__ = doc
    return draw


for _name, _method, _count, _doc in (
    ("rand", "uniform_", 0, "Uniform numbers in [0, 1)."),
    ("uniform", "uniform_", 2, "Uniform numbers in [low, high)."),
    ("randn", "normal_", 0, "Standard normal numbers."),
    ("normal", "normal_", 2, "Normal numbers of a mean and a standard deviation."),
    ("log_normal", "log_normal_", 2, "Numbers with normal logarithms."),
    ("exponential", "exponential_", 1, "Exponential numbers with the mean 1 / rate."),
    ("cauchy", "cauchy_", 2, "Numbers of the Cauchy distribution."),
    ("geometric", "geometric_", 1, "Numbers of trials until the first success, from 1."),
    ("random", "random_", 0, "Whole numbers that the dtype has, from 0."),
    ("bernoulli_", "bernoulli_", 1, "1 with the probability of a number, else 0."),
):
    setattr(MT19937, _name, _filled(_method, _count, _doc))
