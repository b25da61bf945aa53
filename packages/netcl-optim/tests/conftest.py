"""Fixtures of netcl.optim: parameters with given gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def parameter() -> Callable[..., Tensor]:
    """Makes a parameter of given values, with a gradient where one is given."""

    def make(values: object, grad: object = None, dtype: str = "float32") -> Tensor:
        p = ag.Parameter(Tensor.from_host(np.asarray(values), dtype=dtype))
        if grad is not None:
            p.grad = Tensor.from_host(np.asarray(grad), dtype=dtype)
        return p

    return make
