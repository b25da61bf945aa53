"""Generators: seeds and positions of their own for draws, and one seed for everything that the process draws."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core.errors import CaptureError
from netcl.core.tensor.generator import HOST_NUMBERS
from netcl.core.tuning import matmul_precision
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


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_repeats_its_draws_and_leaves_the_process_alone(handle, name):
    generator, before = nc.Generator().manual_seed(3), nc.get_rng_state()
    first, second = DRAWS[name](generator).tolist(), DRAWS[name](generator).tolist()
    assert first != second
    assert DRAWS[name](generator.manual_seed(3)).tolist() == first
    assert nc.get_rng_state() == before


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_draws_what_the_process_draws_with_its_seed(handle, name):
    nc.manual_seed(8)
    nc.rand(3)
    expected = DRAWS[name](None).tolist()
    nc.rand(100)  # moves the base on the device no further than the process's own count
    generator = nc.Generator().manual_seed(8)
    nc.rand(3, generator=generator)
    assert DRAWS[name](generator).tolist() == expected


def test_manual_seed_returns_the_generator_of_the_process(handle):
    generator = nc.manual_seed(11)
    assert generator is nc.default_generator
    assert nc.initial_seed() == generator.initial_seed() == 11
    drawn = nc.rand(2).tolist()
    assert nc.rand(2, generator=nc.manual_seed(11)).tolist() == drawn
    assert nc.seed() == nc.initial_seed() != 11


def test_states_are_kept_and_restored():
    generator = nc.Generator().manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1
    state = generator.get_state()
    first = nc.rand(5, generator=generator).tolist()
    copies = (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state())
    assert all(one.get_state() == generator.get_state() for one in copies)
    assert nc.rand(5, generator=generator.set_state(state)).tolist() == first
    assert nc.Generator().initial_seed() == nc.Generator("cpu").initial_seed()
    assert generator.seed() == generator.initial_seed()


def test_other_objects_are_refused_by_name():
    with pytest.raises(TypeError, match=r"generator= takes a netcl\.Generator, not numpy\.random.*manual_seed\(seed\)"):
        nc.rand(2, generator=np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"manual_seed\(seed\)"):
        nc.Generator().set_state(np.zeros(5056, np.uint8))
    with pytest.raises(TypeError, match="expected a whole number as seed"):
        nc.manual_seed(0.5)


def test_a_captured_step_refuses_a_generator(handle):
    generator, x = nc.Generator(), nc.ones(3)
    with pytest.raises(CaptureError, match="leave generator out"):
        capture(lambda x: x + nc.rand(3, generator=generator), x)


def test_random_counts_from_zero_if_one_number_is_given(handle):
    nc.manual_seed(0)
    drawn = nc.zeros(200).random_(10)
    assert set(drawn.tolist()) == set(range(10))
    assert set(nc.zeros(200).random_(5, 10).tolist()) == set(range(5, 10))
    with pytest.raises(TypeError, match="randint needs a size"):
        nc.randint(3, 10)


def test_float32_matmul_precision_is_a_name_of_the_front(monkeypatch):
    monkeypatch.setattr(matmul_precision, "_precision", None)
    assert nc.get_float32_matmul_precision() == "highest"
    nc.set_float32_matmul_precision("medium")
    assert nc.get_float32_matmul_precision() == "medium"
    with pytest.raises(ValueError, match="highest, high, medium"):
        nc.set_float32_matmul_precision("low")


class _Counting:
    """Numbers of an extension: 0.25, 1.25, ..."""

    numbers = "counting"

    def __init__(self, seed: int = 0) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        self.first = seed

    def initial_seed(self) -> int:
        return self.first

    def get_state(self) -> Any:
        return np.array([self.first], np.uint8)

    def set_state(self, state: Any) -> None:
        (self.first,) = state.tolist()

    def uniform(self, low: float, high: float, size: tuple[int, ...], dtype: str) -> Any:
        self.first += 1
        return np.full(size, self.first + 0.25, dtype)


def test_an_extension_adds_numbers(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="expected one of 'philox'.*, got 'counting'"):
        nc.Generator(numbers="counting")
    monkeypatch.setitem(HOST_NUMBERS, "counting", _Counting)
    generator = nc.Generator(numbers="counting").manual_seed(5)
    drawn = nc.rand(2, generator=generator, device=handle).tolist()
    if handle.device_type != "cpu":
        assert drawn == nc.rand(2, generator=nc.Generator().manual_seed(5), device=handle).tolist()
        return
    assert drawn == [6.25, 6.25]
    state = generator.get_state()
    assert (set(state), generator.numbers) == ({"seed", "offset", "counting"}, "counting")
    other = nc.Generator().set_state(state)
    assert other.numbers == "counting"
    assert nc.rand(1, generator=other, device=handle).tolist() == [7.25]
    other.numbers = "philox"
    philox = nc.rand(4, generator=nc.Generator().manual_seed(5), device=handle).tolist()
    assert nc.rand(4, generator=other.manual_seed(5), device=handle).tolist() == philox


def test_numbers_of_an_absent_distribution_say_what_to_install() -> None:
    with pytest.raises(ValueError, match="got 'pcg64'$"):
        nc.Generator(numbers="pcg64")
    code = (
        "import importlib.metadata as metadata\nmetadata.entry_points = lambda **names: ()\nimport netcl as nc\n"
        "try: nc.default_generator.numbers = 'mt19937'\nexcept ValueError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert ran.stdout.strip() == "numbers: expected one of 'philox', got 'mt19937': pip install netcl-torch"


def test_wide_ranges_of_whole_numbers() -> None:
    generator = nc.Generator().manual_seed(3)
    drawn = nc.empty(2000, dtype="int64").random_(generator=generator).numpy()
    assert drawn.min() >= 0
    assert abs(drawn.mean() / 2**62 - 1) < 0.1
    wide = nc.randint(-(2**40), 2**40, (2000,), generator=generator).numpy()
    assert abs(wide.mean()) < 2**36
    assert wide.min() < -(2**39) < 2**39 < wide.max()


def test_exponential_numbers_are_above_zero() -> None:
    drawn = nc.empty(200000, dtype="float16").exponential_(generator=nc.Generator().manual_seed(1)).numpy()
    assert drawn.min() > 0


def test_a_state_that_is_refused_changes_nothing():
    generator = nc.Generator().manual_seed(7)
    before = generator.get_state()
    with pytest.raises(ValueError, match="numbers: expected one of 'philox'.*got 'other'"):
        generator.set_state({"seed": 1, "offset": 8, "other": "AA=="})
    assert generator.get_state() == before
