"""Fixtures of netcl.nn and netcl.io: seeded numbers, on the host and on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl.core import Tensor
from netcl.ops import manual_seed


@pytest.fixture(autouse=True)
def seeded() -> None:
    manual_seed(3)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
def normal(rng: np.random.Generator) -> Callable[..., Tensor]:
    """Returns standard normal float32 numbers of a shape, as a tensor."""

    def make(*shape: int, dtype: str = "float32") -> Tensor:
        tensor: Any = Tensor.from_host(rng.standard_normal(shape).astype(np.float32), dtype=dtype)
        return tensor

    return make
