"""Predicted loops whose first calls a GPU computes while Python makes the others, on any OpenCL device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor, config
from netcl.nn.functional import dropout
from netcl.ops.random import manual_seed
from netcl.optim import SGD
from netcl.runtime import prediction
from netcl.runtime.prediction import stretch
from netcl.runtime.prediction.predicted_period import PredictedPeriod

pytestmark = pytest.mark.level("capture")

STEPS, AT = 10, 8


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yields the positions at which a device has started."""
    if Tensor.from_host(np.zeros(1, np.float32)).engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy computes in the thread that calls")
    positions: list[int] = []
    start = PredictedPeriod._start

    def noted(period: PredictedPeriod) -> None:
        start(period)
        if period._part:
            positions.append(period.position)

    monkeypatch.setattr(PredictedPeriod, "_start", noted)
    monkeypatch.setattr(stretch, "starts_early", lambda engine: True)
    monkeypatch.setattr(stretch, "_LEAST_CALLS", 4)
    monkeypatch.setattr(stretch, "_STARTS", (0.4, 0.8))
    yield positions


def seen(mode: str, deed: Callable[[int, Any, Tensor], Any], norm: type[nn.Module] = nn.LayerNorm) -> list[bytes]:
    """Returns the bits of all values of a loop over a network that draws masks."""
    manual_seed(3)
    rng, values = np.random.default_rng(5), list[Any]()
    network = nn.Sequential(nn.Linear(6, 8), norm(8), nn.Tanh(), nn.Linear(8, 8), norm(8))
    optimizer = SGD(network.parameters(), lr=0.1, momentum=0.9)
    with config.override(REPLAY=mode):
        for number in range(STEPS):
            optimizer.zero_grad()
            x = Tensor.from_host(rng.standard_normal((5, 6)).astype(np.float32))
            hidden = dropout(network(x), 0.3)
            values.append(deed(number, network, hidden))
            loss = hidden.square().mean()
            loss.backward()
            optimizer.step()
            values.append(loss.detach())
        state = list(network.state_dict().values())
    return [np.asarray(value).tobytes() for value in (*values, *state) if value is not None]


def nothing(number: int, network: Any, hidden: Tensor) -> None:
    """Does nothing more."""


def test_a_device_starts_before_the_step_ends(started: list[int]) -> None:
    wanted, before = seen("off", nothing), prediction.report().replays
    assert not started
    assert seen("early", nothing) == wanted
    replays = prediction.report().replays - before
    assert replays > 2
    assert len(set(started)) == 2
    assert len(started) == 2 * replays


@pytest.mark.parametrize(
    "deed",
    [
        lambda number, network, hidden: network[1].weight.grad if number == AT else None,
        lambda number, network, hidden: hidden + 1.0 if number == AT else None,
        lambda number, network, hidden: hidden.detach().sum() if number >= AT else None,
        lambda number, network, hidden: hidden.detach().sum().item() if number < AT else None,
        lambda number, network, hidden: network.eval() and None if number == AT else None,
    ],
    ids=["a gradient is read", "another call", "other steps", "no read any more", "another mode"],
)
def test_what_was_started_is_taken_back(started: list[int], deed: Callable[..., Any]) -> None:
    wanted = seen("off", deed)
    assert seen("early", deed) == wanted
    assert started


def test_a_network_that_writes_running_statistics_is_not_started(started: list[int]) -> None:
    """They would have to be restored if another call follows."""
    assert seen("early", nothing, nn.BatchNorm1d) == seen("off", nothing, nn.BatchNorm1d)
    assert not started


def test_few_calls_and_cpus_start_nothing(started: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "_LEAST_CALLS", 64)
    assert seen("early", nothing) == seen("off", nothing)
    assert not started
    monkeypatch.undo()
    engine = Tensor.from_host(np.zeros(1, np.float32)).engine
    assert stretch.starts_early(engine) == (engine.handle.device_type.lower() == "gpu")
