"""The running statistics of batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core.device.health import launch_log
from netcl.core.errors import ShapeError


@pytest.mark.parametrize("momentum", [0.1, 0.75])
def test_both_statistics_move_in_one_launch(engine: Any, momentum: float) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5, 2)).astype(np.float32)
    mean, var = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    a, running = engine.tensor(x, "float32"), [engine.tensor(one, "float32") for one in (mean, var)]
    if engine.name == "cl":
        log = launch_log(engine.queue)
        ops.batch_norm(a, None, None, training=True)
        alone = len([*log])
        log.clear()
        ops.batch_norm(a, *running, training=True, momentum=0.0)
        assert len([*log]) == alone + 1
    ops.batch_norm(a, *running, training=True, momentum=momentum)
    exact, axes = x.astype(np.float64), (0, 2, 3)
    for one, old, new in zip(running, (mean, var), (exact.mean(axes), exact.var(axes, ddof=1))):
        np.testing.assert_allclose(one.numpy(), (1 - momentum) * old + momentum * new, 1e-6)


def test_one_statistic_alone_moves(engine: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    running = engine.tensor(np.zeros(2, np.float32), "float32")
    ops.batch_norm(engine.tensor(x, "float32"), None, running, training=True, momentum=1.0)
    np.testing.assert_allclose(running.numpy(), x.var(0, ddof=1), 1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 3, 1, 1), (0, 3, 1)])
def test_instance_norm_needs_more_than_one_spatial_element(engine: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="has one spatial element"):
        ops.instance_norm(engine.empty(shape, "float32"))


def test_groups_of_one_value_are_zeros_and_no_channels_are_none(engine: Any) -> None:
    assert ops.group_norm(engine.zeros((1, 4), "float32"), 4).tolist() == [[0.0] * 4]
    assert ops.instance_norm(engine.zeros((2, 0, 4), "float32")).shape == (2, 0, 4)
    assert ops.group_norm(engine.zeros((2, 4), "float32"), 4).shape == (2, 4)
    assert ops.layer_norm(engine.zeros((2, 1), "float32"), 1).shape == (2, 1)
