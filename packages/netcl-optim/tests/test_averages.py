"""Averages of weights."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.core.errors import ShapeError
from netcl.optim import SWA, ModelEMA


class Model:
    def __init__(self, **params) -> None:
        self.params = params

    def named_parameters(self):
        return iter(self.params.items())


@pytest.fixture
def model(parameter, rng) -> Model:
    return Model(w=parameter(rng.standard_normal((3, 2))), b=parameter(rng.standard_normal(2)))


@pytest.mark.parametrize("warmup", [True, False])
def test_ema(warmup: bool, model: Model, rng) -> None:
    ema = ModelEMA(model, decay=0.9, warmup=warmup)
    expected = {name: p.to_host().astype(np.float64) for name, p in model.params.items()}
    for n in range(1, 31):
        for name, p in model.params.items():
            p.write(rng.standard_normal(p.shape).astype(np.float32))
            d = min(0.9, (1 + n) / (10 + n)) if warmup else 0.9
            expected[name] = d * expected[name] + (1 - d) * p.to_host()
        ema.update()
    assert ema.updates == 30
    weights = model.params["w"].to_host()
    with ema.averaged():
        for name, p in model.params.items():
            np.testing.assert_allclose(p.to_host(), expected[name], rtol=1e-5, atol=1e-6)
        with pytest.raises(RuntimeError, match="restore"):
            ema.update()
    np.testing.assert_array_equal(model.params["w"].to_host(), weights)
    with pytest.raises(RuntimeError, match="store"):
        ema.restore()


def test_an_average_may_be_given_its_model(model: Model, parameter) -> None:
    ema = ModelEMA(model, decay=0.9)
    ema.update(model)
    assert ema.updates == 1
    with pytest.raises(ValueError, match="make one of this model"):
        ema.update(Model(w=parameter(np.zeros((3, 2))), b=parameter(np.zeros(2))))


def test_swa_is_the_mean(model: Model, rng) -> None:
    swa, seen = SWA(model), []
    for _ in range(7):
        model.params["w"].write(rng.standard_normal((3, 2)).astype(np.float32))
        seen.append(model.params["w"].to_host())
        swa.update()
    np.testing.assert_allclose(swa.shadow["w"].to_host(), np.mean(seen, axis=0), rtol=1e-5, atol=1e-6)


def test_state(model: Model, parameter) -> None:
    ema = ModelEMA(model)
    ema.update()
    model.params["w"].write(np.ones((3, 2), np.float32))
    ema.update()
    state = ema.state_dict()
    other = ModelEMA(Model(w=parameter(np.zeros((3, 2))), b=parameter(np.zeros(2))))
    other.load_state_dict(state)
    assert other.updates == 2
    np.testing.assert_array_equal(other.shadow["w"].to_host(), ema.shadow["w"].to_host())
    with pytest.raises(ValueError, match="'b'"):
        other.load_state_dict({"updates": 1, "shadow": {"w": state["shadow"]["w"]}})
    with pytest.raises(ShapeError, match=r"'b'.*\(3,\)"):
        other.load_state_dict({"updates": 1, "shadow": {**state["shadow"], "b": np.zeros(3)}})
