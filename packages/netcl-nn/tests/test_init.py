"""Initialisers: ranges, moments and structure."""

from __future__ import annotations

import math

import numpy as np
import pytest

import netcl as nc
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.tensor.generator import Generator
from netcl.nn import Linear, init
from netcl.ops import get_rng_state, manual_seed

SHAPE = (60, 20, 3, 3)
FAN_IN, FAN_OUT = 180, 540


@pytest.mark.parametrize(
    ("name", "options", "std", "bound"),
    [
        ("uniform", {"a": -1.0, "b": 3.0}, 4 / math.sqrt(12), 3.0),
        ("normal", {}, 0.02, None),
        ("normal", {"mean": 0.0, "std": 2.0}, 2.0, None),
        ("xavier_uniform", {}, math.sqrt(2 / (FAN_IN + FAN_OUT)), math.sqrt(6 / (FAN_IN + FAN_OUT))),
        ("xavier_normal", {"gain": 3.0}, 3 * math.sqrt(2 / (FAN_IN + FAN_OUT)), None),
        ("kaiming_uniform", {}, 1 / math.sqrt(3 * FAN_IN), 1 / math.sqrt(FAN_IN)),
        ("kaiming_uniform", {"a": 0.0, "mode": "fan_out"}, math.sqrt(2 / FAN_OUT), math.sqrt(6 / FAN_OUT)),
        ("kaiming_normal", {"nonlinearity": "relu"}, math.sqrt(2 / FAN_IN), None),
        ("trunc_normal", {}, 0.8796, 2.0),
    ],
)
def test_spread(name: str, options: dict, std: float, bound: float | None) -> None:
    t = Tensor.zeros(SHAPE)
    assert getattr(init, name)(t, **options) is t
    values = t.to_host()
    mean = 1.0 if name == "uniform" else 0.0
    assert values.mean() == pytest.approx(mean, abs=4 * std / math.sqrt(values.size))
    assert values.std() == pytest.approx(std, rel=0.03)
    if bound is not None:
        assert np.abs(values).max() <= bound * (1 + 1e-6)
        assert np.abs(values).max() > 0.98 * bound
    if name not in ("normal", "kaiming_uniform"):
        assert getattr(init, f"{name}_") is getattr(init, name)


def test_plain_values() -> None:
    t = Tensor.zeros((2, 3))
    assert init.constant_(t, 1.5).tolist() == [[1.5] * 3] * 2
    assert init.zeros_(t).tolist() == [[0.0] * 3] * 2
    assert init.ones_(t).tolist() == [[1.0] * 3] * 2
    np.testing.assert_array_equal(init.eye_(t).to_host(), np.eye(2, 3))


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = init.orthogonal_(Tensor.zeros(shape), gain=2.0).to_host().reshape(shape[0], -1)
    small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_truncated_off_centre() -> None:
    values = init.trunc_normal_(Tensor.zeros((5000,)), mean=1.0, std=0.5, a=1.5, b=2.0).to_host()
    assert values.min() >= 1.5
    assert values.max() <= 2.0
    with pytest.warns(UserWarning, match="two std"):
        tail = init.trunc_normal_(Tensor.zeros((2000,)), a=50.0, b=51.0).to_host()
    assert tail.min() >= 50
    assert abs(tail.mean() - 50.02) < 0.002  # of a normal's tail: a + 1/a - ...


def test_the_seed_decides() -> None:
    manual_seed(5)
    one = Linear(4, 3).weight.to_host()
    two = Linear(4, 3).weight.to_host()
    manual_seed(5)
    np.testing.assert_array_equal(Linear(4, 3).weight.to_host(), one)
    assert (one != two).any()
    assert np.abs(one).max() <= 0.5


def test_skipped_draws_nothing() -> None:
    before = get_rng_state()
    with init.skipped():
        Linear(4, 3)
    assert get_rng_state() == before


def test_wrong_arguments() -> None:
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        init.kaiming_uniform_(Tensor.zeros((3,)))
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        init.orthogonal_(Tensor.zeros((3,)))
    with pytest.raises(ShapeError, match="expected a matrix"):
        init.eye_(Tensor.zeros((3,)))
    with pytest.raises(ValueError, match="'swish'"):
        init.calculate_gain("swish")
    with pytest.raises(ValueError, match="'fan'"):
        init.kaiming_normal_(Tensor.zeros((3, 3)), mode="fan")


def test_names_with_an_underscore_have_the_defaults_of_pytorch():
    wide = Tensor.zeros((400, 100))
    assert init.normal_(wide).numpy().std() == pytest.approx(1.0, rel=0.03)
    assert np.abs(init.kaiming_uniform_(wide).numpy()).max() == pytest.approx(math.sqrt(6 / 100), rel=0.01)


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "trunc_normal_", "orthogonal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_"]
    + ["kaiming_normal_", "normal", "kaiming_uniform"],
)
def test_a_generator_gives_the_numbers(name):
    generator, before = Generator().manual_seed(5), get_rng_state()
    first = getattr(init, name)(Tensor.zeros((4, 3)), generator=generator).tolist()
    assert getattr(init, name)(Tensor.zeros((4, 3)), generator=generator).tolist() != first
    assert getattr(init, name)(Tensor.zeros((4, 3)), generator=generator.manual_seed(5)).tolist() == first
    assert get_rng_state() == before


@pytest.mark.parametrize(("shape", "groups"), [((4, 3, 3), 1), ((4, 2, 3, 5), 2), ((2, 2, 1, 2, 3), 1)])
def test_dirac_keeps_channels(shape, groups):
    weight = init.dirac_(Tensor.full(shape, 7.0), groups).numpy()
    expected = np.zeros(shape)
    part = shape[0] // groups
    for out in range(shape[0]):
        if out % part < shape[1]:
            expected[tuple([out, out % part] + [size // 2 for size in shape[2:]])] = 1
    np.testing.assert_array_equal(weight, expected)


def test_sparse_columns():
    weight = init.sparse_(Tensor.zeros((10, 40)), 0.25, std=2.0, generator=Generator().manual_seed(5)).numpy()
    assert ((weight == 0).sum(axis=0) == 3).all()
    assert weight[weight != 0].std() == pytest.approx(2.0, rel=0.15)
    assert len({tuple(np.flatnonzero(column == 0)) for column in weight.T}) > 1


def test_weights_that_dirac_and_sparse_refuse():
    with pytest.raises(ShapeError, match=r"3 to 5 dimensions, got \(3, 3\)"):
        init.dirac_(Tensor.zeros((3, 3)))
    with pytest.raises(ValueError, match="groups=2 does not divide 3"):
        init.dirac_(Tensor.zeros((3, 3, 3)), 2)
    with pytest.raises(ShapeError, match="expected a matrix"):
        init.sparse_(Tensor.zeros((3,)), 0.5)


@pytest.mark.level("front")
@pytest.mark.parametrize("name", ["trunc_normal_", "orthogonal_", "eye_", "xavier_normal_", "sparse_"])
def test_on_the_device_meta_there_is_nothing_to_fill(name):
    weight = nc.empty((3, 3), device="meta")
    assert getattr(init, name)(weight, *([0.1] if name == "sparse_" else [])) is weight
    with pytest.raises(ShapeError):
        init.orthogonal_(nc.empty(3, device="meta"))
