"""Random numbers for the seed 18, recorded from PyTorch's CPU generator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl.torch.mt19937 import MT19937

WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
NORMAL = [0.5530325, 0.7176076, -0.3482247, 1.0527071, -1.4921209, -0.5323198, 0.4500753, 0.0842355, 0.7316012]
NORMAL += [0.9447206, 0.6665604, -0.9301698, -0.7067298, -1.6469511, 2.158155, 0.069077, -0.8365034]

RECORDED: dict[str, tuple[Callable[[MT19937], Any], list[float]]] = {
    "rand": (lambda x: x.rand(3), [0.4958063, 0.4587566, 0.3960643]),
    "rand float64": (lambda x: x.rand(3, "float64"), [0.9664507, 0.1685145, 0.3758231]),
    "rand bfloat16": (lambda x: x.rand(3, "bfloat16"), [0.4960938, 0.4589844, 0.3964844]),
    "uniform_": (lambda x: x.uniform(-1, 2, 3), [0.487419, 0.3762699, 0.1881928]),
    "randn": (lambda x: x.randn(3), [0.5940741, -0.127117, -0.7286937]),
    "randn of more than a block": (lambda x: x.randn(17), NORMAL),
    "randint": (lambda x: x.randint(0, 100, 5), [6, 63, 20, 25, 6]),
    "randint of 64 bits": (lambda x: x.randint(0, 2**40, 3), [180715090195, 517254187845, 817094115249]),
    "random_": (lambda x: x.random(3), [8318084, 7696640, 6644727]),
    "randperm": (lambda x: x.randperm(8), [2, 4, 0, 3, 6, 7, 1, 5]),
    "bernoulli_": (lambda x: x.bernoulli_(0.5, 8), [0, 1, 1, 1, 1, 1, 1, 1]),
    "bernoulli": (lambda x: x.bernoulli(np.full(8, 0.5, np.float32)), [1, 1, 1, 0, 0, 0, 0, 0]),
    "exponential_": (lambda x: x.exponential(1.0, 3), [3.3947401, 0.1845414, 0.4713215]),
    "log_normal_": (lambda x: x.log_normal(1.0, 2.0, 3), [8.9186811, 2.1080554, 0.6329351]),
    "cauchy_": (lambda x: x.cauchy(0.0, 1.0, 3), [9.4526739, -1.7090616, -0.4111871]),
    "geometric_": (lambda x: x.geometric(0.3, 5), [1, 5, 3, 3, 3]),
    "multinomial": (lambda x: x.multinomial(WEIGHTS, 3), [1, 3, 2]),
    "multinomial with replacement": (lambda x: x.multinomial(WEIGHTS, 6, True), [3, 1, 2, 2, 2, 1]),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_numbers(name: str) -> None:
    draw, expected = RECORDED[name]
    np.testing.assert_allclose(draw(MT19937(18)).astype(float), expected, rtol=2e-6, atol=2e-7)


def test_state_is_that_of_pytorch() -> None:
    numbers = MT19937(18)
    numbers.randn(17)
    numbers.rand(700)
    state = numbers.get_state()
    recorded = "57fbe0d99de33593d178888c137e81f6c42cc10b3437b10fdc0b7828a2a673b4"
    assert state.size == 5056
    assert hashlib.sha256(state.tobytes()).hexdigest() == recorded


def test_a_state_goes_on_with_the_second_normal_number() -> None:
    numbers, other = MT19937(18), MT19937(0)
    numbers.randn(3)
    other.set_state(numbers.get_state())
    np.testing.assert_array_equal(other.randn(5), numbers.randn(5))
    assert other.initial_seed() == 18


@pytest.mark.parametrize("state", [np.zeros(16, np.uint8), np.zeros(5056, np.uint8)])
def test_other_bytes_are_no_state(state: Any) -> None:
    with pytest.raises(ValueError, match="state of PyTorch's CPU generator"):
        MT19937(0).set_state(state)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[low, high\)"):
        MT19937(0).randint(3, 3, 2)
