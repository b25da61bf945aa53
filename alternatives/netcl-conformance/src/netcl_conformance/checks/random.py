"""Level random: Philox numbers by seed and position."""

from __future__ import annotations

import numpy as np

import netcl.ops as ops
from netcl.core import Tensor
from netcl_conformance.registry import check

# Philox 4x32-10, as netcl-core draws it after manual_seed(7).
UNIFORM = [0.9545971155166626, 0.7501521706581116, 0.11417734622955322, 0.08565783500671387]


@check("random")
def a_seed_gives_the_same_bits_everywhere() -> None:
    ops.manual_seed(7)
    first = ops.rand((4,)).numpy()
    np.testing.assert_array_equal(first, np.array(UNIFORM, np.float32))
    ops.manual_seed(7)
    np.testing.assert_array_equal(ops.rand((4,)).numpy(), first)
    assert not np.array_equal(ops.rand((4,)).numpy(), first), "the position advances"
    assert not np.array_equal(Tensor.rand(4).numpy(), first)


@check("random")
def states_are_read_and_set_again() -> None:
    ops.manual_seed(3)
    ops.rand((5,))
    state = ops.get_rng_state()
    one = ops.randn((1000,)).numpy()
    ops.set_rng_state(state)
    np.testing.assert_array_equal(ops.randn((1000,)).numpy(), one)
    assert abs(one.mean()) < 0.15
    assert 0.9 < one.std() < 1.1


@check("random")
def distributions_have_their_ranges() -> None:
    ops.manual_seed(0)
    whole = ops.randint(-3, 4, (2000,)).numpy()
    assert set(whole.tolist()) == set(range(-3, 4))
    assert sorted(ops.randperm(50).tolist()) == list(range(50))
    u = ops.uniform(2.0, 3.0, (2000,)).numpy()
    assert u.min() >= 2
    assert u.max() < 3
    assert abs(u.mean() - 2.5) < 0.05
    p = ops.bernoulli(Tensor.full((4000,), 0.25)).numpy()
    assert abs(p.mean() - 0.25) < 0.05
