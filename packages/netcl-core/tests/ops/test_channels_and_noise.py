"""Channel ops, dropout of SELU nets, random slopes and fractional pools: statistics, written values, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError


def test_alpha_dropout_keeps_mean_and_deviation(engine: Any) -> None:
    y = ops.alpha_dropout(ops.randn(100_000, queue=engine.queue), 0.4, True).numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.std() - 1) < 0.02
    dropped = np.unique(y, return_counts=True)[1].max()
    assert abs(dropped / y.size - 0.4) < 0.02


def test_feature_dropout_drops_whole_channels(engine: Any) -> None:
    x = Tensor.ones((200, 10, 3, 2), queue=engine.queue)
    y = ops.feature_dropout(x, 0.25).numpy().reshape(2000, 6)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (y == y[:, :1]).all()
    assert abs((y[:, 0] == 0).mean() - 0.25) < 0.06
    z = ops.feature_alpha_dropout(x, 0.25, True).numpy().reshape(2000, 6)
    assert (z == z[:, :1]).all()
    assert len(np.unique(z)) == 2


def test_probabilities_zero_and_one() -> None:
    x = Tensor.ones((4, 3))
    assert ops.alpha_dropout(x, 0.0, True) is x
    assert ops.alpha_dropout(x, 0.5) is x
    assert ops.alpha_dropout(x, 1.0, True).tolist() == [[0.0] * 3] * 4
    assert ops.feature_dropout(x, 1.0).tolist() == [[0.0] * 3] * 4


def test_random_slopes_are_within_their_limits(engine: Any) -> None:
    y = ops.rrelu(Tensor.full((20_000,), -1.0, queue=engine.queue), 0.2, 0.6, True).numpy()
    assert -0.6 <= y.min() < -0.59
    assert -0.21 < y.max() <= -0.2
    assert ops.rrelu(Tensor.from_host([2.0, -2.0]), 0.2, 0.6).tolist() == pytest.approx([2.0, -0.8])


def test_windows_of_a_fractional_pool_are_drawn_anew(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, np.arange(400, dtype=np.float32).reshape(1, 1, 20, 20))
    found = {tuple(ops.fractional_max_pool2d(x, 2, 8).numpy().reshape(-1)) for _ in range(5)}
    assert len(found) > 1
    for values in found:
        assert values[-1] == 399  # the last window ends with the image


def test_refusals() -> None:
    image = Tensor.ones((1, 4, 5, 5))
    with pytest.raises(ShapeError, match=r"channel_shuffle: x \(1, 4, 5, 5\), groups 3"):
        ops.channel_shuffle(image, 3)
    with pytest.raises(ShapeError, match="local_response_norm: .* size 0"):
        ops.local_response_norm(image, 0)
    with pytest.raises(ShapeError, match=r"conv_tbc: x \(3, 2\)"):
        ops.conv_tbc(Tensor.ones((3, 2)), Tensor.ones((1, 2, 2)), Tensor.ones((2,)))
    with pytest.raises(ShapeError, match="bilinear: input1"):
        ops.bilinear(Tensor.ones((2, 3)), Tensor.ones((2, 3)), Tensor.ones((4, 3, 2)))
    with pytest.raises(ValueError, match="alpha_dropout: p 1.5 is no probability"):
        ops.alpha_dropout(image, 1.5, True)
    with pytest.raises(DTypeError, match="alpha_dropout: expected floating dtypes, got int64"):
        ops.alpha_dropout(Tensor.from_host([1, 2]), 0.5, True)
    with pytest.raises(ShapeError, match="feature_dropout: expected x"):
        ops.feature_dropout(Tensor.ones((3,)))
    with pytest.raises(ValueError, match="rrelu: lower 0.5 is above upper 0.2"):
        ops.rrelu(image, 0.5, 0.2)
    with pytest.raises(ValueError, match="give output_size or output_ratio"):
        ops.fractional_max_pool2d(image, 2)
    with pytest.raises(ValueError, match="expected a number between 0 and 1"):
        ops.fractional_max_pool2d(image, 2, output_ratio=1.5)
    with pytest.raises(ShapeError, match=r"fractional_max_pool2d: \(5, 5\) windows of \(2, 2\) do not fit"):
        ops.fractional_max_pool2d(image, 2, 5)
    with pytest.raises(ShapeError, match="_random_samples"):
        ops.fractional_max_pool2d(image, 2, 3, _random_samples=np.zeros((1, 1, 2)))
