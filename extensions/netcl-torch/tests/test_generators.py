"""Generators with PyTorch's numbers: draws on CPUs, states, and the draws that keep Philox."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core import manager
from netcl.runtime.capture import capture

DRAWS = {
    "rand": lambda g: nc.rand(3, 2, generator=g),
    "randn": lambda g: nc.randn((3, 2), generator=g),
    "randint": lambda g: nc.randint(0, 1000, (5,), generator=g),
    "randperm": lambda g: nc.randperm(20, generator=g),
    "normal": lambda g: nc.normal(1.0, 2.0, (4,), generator=g),
    "normal of tensors": lambda g: nc.normal(nc.zeros(4), 2.0, generator=g),
    "bernoulli": lambda g: nc.bernoulli(nc.full((40,), 0.5), generator=g),
    "multinomial": lambda g: nc.multinomial(nc.ones(50), 5, generator=g),
    "rand_like": lambda g: nc.rand_like(nc.zeros(4), generator=g),
    "randn_like": lambda g: nc.randn_like(nc.zeros(4), generator=g),
    "randint_like": lambda g: nc.randint_like(nc.zeros(4), 1000, generator=g),
    "normal_": lambda g: nc.zeros(4).normal_(generator=g),
    "uniform_": lambda g: nc.zeros(4).uniform_(-1, 1, generator=g),
    "bernoulli_": lambda g: nc.zeros(40).bernoulli_(0.5, generator=g),
    "random_": lambda g: nc.zeros(4).random_(1000, generator=g),
    "multinomial of a tensor": lambda g: nc.ones(50).multinomial(5, generator=g),
    "cauchy_": lambda g: nc.zeros(4).cauchy_(generator=g),
    "log_normal_": lambda g: nc.zeros(4).log_normal_(generator=g),
    "geometric_": lambda g: nc.zeros(40).geometric_(0.3, generator=g),
    "exponential_": lambda g: nc.zeros(4).exponential_(generator=g),
}


@pytest.fixture
def drawing_as_pytorch() -> Iterator[nc.Generator]:
    if manager.default().device_type != "cpu":
        pytest.skip("needs a CPU device: others draw by Philox")
    generator = nc.default_generator
    generator.numbers = "mt19937"
    yield generator.manual_seed(18)
    generator.numbers = "philox"


def test_numbers_of_pytorch_for_a_seed(drawing_as_pytorch: nc.Generator, handle: Any) -> None:
    """Recorded from PyTorch 2.13."""
    np.testing.assert_allclose(nc.rand(3, device=handle).numpy(), [0.4958063, 0.4587566, 0.3960643], rtol=1e-6)
    drawing_as_pytorch.manual_seed(18)
    np.testing.assert_allclose(nc.randn(3, device=handle).numpy(), [0.5940741, -0.127117, -0.7286937], rtol=1e-5)
    drawing_as_pytorch.manual_seed(18)
    assert nc.randperm(8, device=handle).tolist() == [2, 4, 0, 3, 6, 7, 1, 5]
    generator = nc.Generator(numbers="mt19937").manual_seed(18)
    assert nc.randint(0, 100, (5,), generator=generator, device=handle).tolist() == [6, 63, 20, 25, 6]


def test_dropout_keeps_philox(drawing_as_pytorch: nc.Generator) -> None:
    first = nc.dropout(nc.ones(50), 0.5).tolist()
    nc.rand(100)
    assert drawing_as_pytorch.offset == 13  # of dropout alone
    drawing_as_pytorch.numbers = "philox"
    assert nc.dropout(nc.ones(50), 0.5, seed=18).tolist() == first


def test_a_captured_step_draws_by_philox(drawing_as_pytorch: nc.Generator) -> None:
    x = nc.zeros(4)
    step = capture(lambda x: x + nc.rand(4), x)
    draws = [step.replay(x).tolist() for _ in range(3)]
    assert len({tuple(one) for one in draws}) == 3
    drawing_as_pytorch.manual_seed(18)
    assert nc.rand(4).tolist() not in draws


@pytest.mark.parametrize("name", DRAWS)
def test_a_state_with_numbers_of_pytorch_repeats_draws(name: str) -> None:
    generator = nc.Generator(numbers="mt19937").manual_seed(5)
    DRAWS[name](generator)
    state = generator.get_state()
    assert set(state) == {"seed", "offset", "mt19937"}
    expected = DRAWS[name](generator).tolist()
    for other in (nc.Generator().set_state(state), pickle.loads(pickle.dumps(generator.set_state(state)))):
        assert other.numbers == "mt19937"
        assert DRAWS[name](other).tolist() == expected


def test_numbers_can_be_changed_back() -> None:
    generator = nc.Generator(numbers="mt19937").manual_seed(3)
    generator.numbers = "philox"
    assert nc.rand(4, generator=generator).tolist() == nc.rand(4, generator=nc.Generator().manual_seed(3)).tolist()
