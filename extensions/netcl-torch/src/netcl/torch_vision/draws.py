"""The random numbers of transforms as torchvision draws them: by functions of PyTorch's name, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class TorchDraws:
    """Draws from the default generator of ``torch``, a module with PyTorch's names: the numbers follow its
    ``manual_seed``.
    """

    def __init__(self, torch: Any) -> None:
        self.torch: Any = torch

    def chance(self) -> float:
        return float(self.torch.rand(1).item())

    def uniform(self, low: float, high: float) -> float:
        return float(self.torch.empty(1).uniform_(low, high).item())

    def integer(self, low: int, high: int) -> int:
        return int(self.torch.randint(low, high, size=(1,)).item())

    def permutation(self, n: int) -> list[int]:
        return [int(number) for number in self.torch.randperm(n).tolist()]

    def normal(self, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        drawn = self.torch.empty(tuple(shape), dtype=self.torch.float32).normal_()
        return np.asarray(drawn.numpy(), np.float32)

    def weighted(self, weights: Sequence[float]) -> int:
        return int(self.torch.multinomial(self.torch.tensor(list(weights)), 1).item())
