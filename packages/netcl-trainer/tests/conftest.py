"""Devices of the suite, a small network with everything a step can hold, and batches to learn from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netcl import nn, ops
from netcl.core.testing.pytest_plugin import default_signals as default_signals
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device
from netcl.data import DataLoader


@pytest.fixture
def make_network() -> Callable[..., nn.Sequential]:
    """Makes the same convolutional network each time: batch normalisation, pooling and dropout are in it."""

    def make(seed: int = 0) -> nn.Sequential:
        ops.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(4 * 2 * 2, 3),
        )

    return make


@pytest.fixture
def make_loader() -> Callable[..., DataLoader]:
    """Makes loaders of 4 x 4 images of three kinds, distinguished by their bright region."""

    def make(n: int = 40, batch_size: int = 16, shuffle: bool = True, **keywords: object) -> DataLoader:
        rng = np.random.default_rng(5)
        y = rng.integers(0, 3, n)
        x = rng.normal(0, 0.3, (n, 1, 4, 4)).astype(np.float32)
        x[np.arange(n), 0, y] += 1.5
        return DataLoader((x, y), batch_size, shuffle=shuffle, seed=1, **keywords)  # type: ignore[arg-type]

    return make
