"""Layers refuse integers, as PyTorch does, and say what to write."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import DTypeError

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(4, 2), (2, 4)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 3), (1, 2, 5)),
    "Conv2d": (lambda: nn.Conv2d(1, 3, 3), (1, 1, 5, 5)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(1, 3, 3), (1, 1, 5, 5)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2), (1, 2, 3, 3)),
    "BatchNorm2d without weights": (lambda: nn.BatchNorm2d(2, affine=False), (1, 2, 3, 3)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(2), (1, 2, 3, 3)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (2, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (2, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (1, 4, 3)),
    "LSTM": (lambda: nn.LSTM(4, 2), (3, 1, 4)),
    "GRUCell": (lambda: nn.GRUCell(4, 2), (1, 4)),
    "PReLU": (lambda: nn.PReLU(), (2, 4)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2), (3, 1, 4)),
}


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_refuses_integers(name: str, dtype: str) -> None:
    """They were computed in float32 without a word: PyTorch 2.13 raises RuntimeError for each."""
    make, shape = LAYERS[name]
    with pytest.raises(DTypeError, match=rf"expected an input in float32, got {dtype}; write x.astype\('float32'\)"):
        make()(Tensor.from_host(np.zeros(shape, dtype)))


def test_images_are_told_how_to_be_scaled() -> None:
    with pytest.raises(DTypeError, match=r"x.astype\('float32'\) / 255 for an image"):
        nn.Conv2d(1, 3, 3)(Tensor.from_host(np.zeros((1, 1, 5, 5), np.uint8)))


def test_ids_are_embedded() -> None:
    assert nn.Embedding(4, 2)(Tensor.from_host(np.zeros((2, 3), np.int64))).shape == (2, 3, 2)
