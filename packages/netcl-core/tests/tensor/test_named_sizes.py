"""Lengths and axes of methods under PyTorch's names."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x.flip(dims=(0,)), X[::-1]),
        (lambda x: x.permute(dims=(1, 0)), X.T),
        (lambda x: x.tile(dims=(2, 1)), np.tile(X, (2, 1))),
        (lambda x: x.repeat(repeats=(1, 2)), np.tile(X, (1, 2))),
        (lambda x: x.view(size=(6,)), X.reshape(6)),
        (lambda x: x.reshape(shape=(3, 2)), X.reshape(3, 2)),
        (lambda x: x.expand(size=(2, 2, 3)), np.broadcast_to(X, (2, 2, 3))),
    ],
    ids=["flip", "permute", "tile", "repeat", "view", "reshape", "expand"],
)
def test_sizes_and_axes_are_taken_by_name(call, expected):
    np.testing.assert_array_equal(call(nc.tensor(X)).numpy(), expected)


def test_sizes_are_not_taken_twice():
    with pytest.raises(TypeError, match="by position or by name"):
        nc.tensor(X).flip(0, dims=(1,))
