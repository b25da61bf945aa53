"""Random numbers: the same draws on every device, state that can be stored, and their statistics."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, config
from netcl.core.errors import DTypeError, ShapeError
from netcl.ops import random


@pytest.fixture(autouse=True)
def seeded():
    state = ops.get_rng_state()
    ops.manual_seed(1234)
    yield
    ops.set_rng_state(state)


def on_numpy(draw):
    """Returns the numbers of ``draw`` on the NumPy engine from the same state."""
    from netcl.core.device import device

    ops.manual_seed(1234)
    with device("cpu"):
        return draw().numpy()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: ops.rand(3, 5),
        lambda: ops.rand((2**16 + 1,), dtype="float16"),
        lambda: ops.randint(-5, 17, (1001,)),
        lambda: ops.randint(2**31, shape=(7,), dtype="int32"),
        lambda: ops.randint(-(2**40), -(2**40) + 2**31, (7,)),
        lambda: ops.randint(7, shape=(9,), dtype="uint8"),
        lambda: ops.permutation(Tensor.arange(57)),
        lambda: ops.uniform(-2, 2, (7,)),
        lambda: ops.randperm(57),
        lambda: ops.bernoulli(0.3, (40,)),
        lambda: ops.dropout(Tensor.ones(99)),
    ],
    ids=[
        "rand",
        "half",
        "randint",
        "wide",
        "far",
        "bytes",
        "permutation",
        "uniform",
        "randperm",
        "bernoulli",
        "dropout",
    ],
)
def test_the_same_bits_on_every_device(engine, draw):
    first = draw()
    assert first.engine is engine
    np.testing.assert_array_equal(first.numpy(), on_numpy(draw))


def test_normal_numbers_agree_within_four_units(engine):
    found, wanted = ops.randn(1000).numpy(), on_numpy(lambda: ops.randn(1000))
    assert np.abs(found - wanted).max() <= 4 * np.spacing(np.abs(wanted).max())


def test_draws_move_on_and_state_brings_them_back(engine):
    first = ops.rand(6)
    assert random.tell() == 2
    state = ops.get_rng_state()
    second = ops.rand(6).numpy()
    assert not np.array_equal(first.numpy(), second)
    ops.set_rng_state(state)
    np.testing.assert_array_equal(ops.rand(6).numpy(), second)
    ops.manual_seed(1234)
    np.testing.assert_array_equal(ops.rand(6).numpy(), first.numpy())


def test_a_base_shifts_the_offsets_of_launches(engine):
    ops.rand(4 * 10)
    tenth = ops.rand(4).numpy()
    seed = ops.get_rng_state()["seed"]
    engine.write(engine.rng_state, np.array([seed, 10]))
    shifted = engine.random("uniform", (4,), "float32", offset=0).numpy()
    engine.write(engine.rng_state, np.array([seed, 0]))
    np.testing.assert_array_equal(shifted, tenth)


def test_the_seed_of_the_environment(engine, monkeypatch):
    with config.override(SEED=77):
        monkeypatch.setattr(random._generator, "_seed", None)
        assert ops.get_rng_state()["seed"] == 77
    monkeypatch.setattr(random._generator, "_seed", None)
    assert ops.get_rng_state()["seed"] != 77


def test_uniform_and_normal_statistics(engine):
    u, n = ops.rand(100_000).numpy(), ops.randn(100_000).numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.002
    assert abs(n.mean()) < 0.02
    assert abs(n.std() - 1) < 0.01
    assert 4 < np.abs(n).max() < 6.5


def test_whole_numbers_cover_their_range(engine):
    drawn = ops.randint(3, 8, (5000,)).numpy()
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) == {3, 4, 5, 6, 7}
    assert np.abs(np.bincount(drawn)[3:] - 1000).max() < 150
    assert sorted(ops.randperm(100).tolist()) == list(range(100))
    assert ops.randperm(0).shape == (0,)


def test_ranges_and_scales(engine):
    u = ops.uniform(-3, 5, (50_000,)).numpy()
    assert u.min() >= -3
    assert u.max() < 5
    assert abs(u.mean() - 1) < 0.05
    n = ops.normal(2, 0.5, (50_000,)).numpy()
    assert abs(n.mean() - 2) < 0.02
    assert abs(n.std() - 0.5) < 0.01
    assert ops.uniform(dtype="float16").dtype == "float16"
    assert ops.normal(shape=(0, 2)).shape == (0, 2)
    ops.manual_seed(5)
    plain = ops.rand(9).numpy()
    ops.manual_seed(5)
    np.testing.assert_array_equal(ops.uniform(0, 1, (9,)).numpy(), plain)


def test_permutations_keep_the_slices(engine):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = ops.permutation(Tensor.from_host(x)).numpy()
    assert sorted(rows.tolist()) == x.tolist()
    columns = ops.permutation(Tensor.from_host(x), axis=-1).numpy()
    assert sorted(columns.T.tolist()) == x.T.tolist()
    assert sorted(ops.permutation(6).tolist()) == list(range(6))
    with pytest.raises(ShapeError, match="permutation"):
        ops.permutation(Tensor.ones(()))


def test_dropout_keeps_and_scales(engine):
    x = Tensor.from_host(np.linspace(1, 2, 10_000, dtype=np.float32))
    y, mask = ops.dropout(x, 0.25, return_mask=True)
    kept = mask.numpy()
    assert mask.dtype == "bool"
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y.numpy(), np.where(kept, x.numpy() / 0.75, 0), rtol=1e-6)
    assert not np.array_equal(ops.dropout(x, 0.25).numpy(), y.numpy())
    assert ops.dropout(x, 0.5, training=False) is x
    assert ops.dropout(x, 0.0) is x
    assert not ops.dropout(x, 1.0).numpy().any()


def test_dropout_with_a_seed_of_its_own(engine):
    x = Tensor.ones(1000)
    before = random.tell()
    first = ops.dropout(x, seed=3).numpy()
    assert random.tell() == before
    ops.rand(10)
    np.testing.assert_array_equal(ops.dropout(x, seed=3).numpy(), first)
    assert not np.array_equal(ops.dropout(x, seed=4).numpy(), first)


def test_empty_and_0d_draws(engine):
    assert ops.rand(0, 3).shape == (0, 3)
    assert ops.rand(()).shape == ()
    assert ops.randint(5).shape == ()


def test_probabilities_per_element(engine):
    p = Tensor.from_host(np.repeat([0.0, 1.0, 0.5], 1000).astype(np.float32))
    drawn = ops.bernoulli(p).numpy().reshape(3, 1000)
    assert drawn[0].sum() == 0
    assert drawn[1].sum() == 1000
    assert 400 < drawn[2].sum() < 600


def test_bad_arguments(engine):
    with pytest.raises(DTypeError, match="rand: expected floating numbers, got int32"):
        ops.rand(3, dtype="int32")
    with pytest.raises(ValueError, match="randint: low 5, high 5"):
        ops.randint(5, 5)
    with pytest.raises(ValueError, match="uniform: low 2 must not be above high 1"):
        ops.uniform(2, 1)
    with pytest.raises(ValueError, match="normal: std -1"):
        ops.normal(0, -1)
    with pytest.raises(ValueError, match="randperm: n -1"):
        ops.randperm(-1)
    with pytest.raises(ValueError, match=r"dropout: p 1.5 is no probability"):
        ops.dropout(Tensor.ones(3), 1.5)
    with pytest.raises(ValueError, match="bernoulli: p 2, shape"):
        ops.bernoulli(2, (3,))
