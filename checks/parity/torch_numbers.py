"""Random numbers for a seed against PyTorch's CPU generator: values, order and state, over dtypes and sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from netcl.torch.mt19937 import MT19937

SIZES = (0, 1, 2, 15, 16, 17, 31, 100, 1000)
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
# last digits of transcendental functions
TOLERANCE = {"float32": 1e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}


# PyTorch on Intel's CPUs takes these from MKL's generator.
_INTEL = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
BY_MKL = ("bernoulli_", "exponential_")


def _dtype(name: str) -> Any:
    return getattr(torch, name)


def _made(n: int, dtype: str) -> Any:
    return torch.empty(n, dtype=_dtype(dtype))


# name -> PyTorch's draw, ours
EXACT: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rand": (lambda n, d, g: torch.rand(n, dtype=_dtype(d), generator=g), lambda n, d, x: x.rand(n, d)),
    "uniform_": (
        lambda n, d, g: _made(n, d).uniform_(-0.3, 2.7, generator=g),
        lambda n, d, x: x.uniform(-0.3, 2.7, n, d),
    ),
    "bernoulli_": (
        lambda n, d, g: _made(n, d).bernoulli_(0.3, generator=g),
        lambda n, d, x: x.bernoulli_(0.3, n, d),
    ),
    "random_": (lambda n, d, g: _made(n, d).random_(generator=g), lambda n, d, x: x.random(n, d)),
    "geometric_": (lambda n, d, g: _made(n, d).geometric_(0.2, generator=g), lambda n, d, x: x.geometric(0.2, n, d)),
    "randint": (
        lambda n, d, g: torch.randint(-3, 99, (n,), dtype=_dtype(d), generator=g),
        lambda n, d, x: x.randint(-3, 99, n, d),
    ),
}
CLOSE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "randn": (lambda n, d, g: torch.randn(n, dtype=_dtype(d), generator=g), lambda n, d, x: x.randn(n, d)),
    "normal_": (lambda n, d, g: _made(n, d).normal_(0.5, 2.0, generator=g), lambda n, d, x: x.normal(0.5, 2.0, n, d)),
    "log_normal_": (
        lambda n, d, g: _made(n, d).log_normal_(0.1, 0.5, generator=g),
        lambda n, d, x: x.log_normal(0.1, 0.5, n, d),
    ),
    "exponential_": (
        lambda n, d, g: _made(n, d).exponential_(1.5, generator=g),
        lambda n, d, x: x.exponential(1.5, n, d),
    ),
    "cauchy_": (lambda n, d, g: _made(n, d).cauchy_(0.1, 0.5, generator=g), lambda n, d, x: x.cauchy(0.1, 0.5, n, d)),
}


def _array(found: Any) -> Any:
    return (found.float() if found.dtype == torch.bfloat16 else found).numpy()


def _same_state(numbers: MT19937, generator: Any) -> None:
    ours, theirs = numbers.get_state(), generator.get_state().numpy()
    second = slice(24 + 4992 + 8, 24 + 4992 + 16)  # of a pair of normal numbers: transcendental
    np.testing.assert_allclose(ours[second].view(np.float64), theirs[second].view(np.float64), rtol=1e-13)
    ours[second] = theirs[second]
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_draws_of_all_sizes(name: str, dtype: str) -> None:
    if _INTEL and name in BY_MKL:
        pytest.skip("needs a CPU that is not Intel's: PyTorch takes these numbers from MKL there")
    theirs, ours = (EXACT | CLOSE)[name]
    generator, numbers = torch.Generator().manual_seed(18), MT19937(18)
    for size in SIZES:
        expected, found = _array(theirs(size, dtype, generator)), ours(size, dtype, numbers)
        if name in EXACT:
            np.testing.assert_array_equal(found, expected, f"{size}")
        else:
            limit = TOLERANCE[dtype]
            np.testing.assert_allclose(found.astype(float), expected.astype(float), limit, limit, err_msg=f"{size}")
        _same_state(numbers, generator)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("span", [1, 100, 2**28 - 1, 2**28, 2**32, 2**40])
def test_whole_numbers(dtype: str, span: int) -> None:
    if span - 3 > np.iinfo(dtype).max or (dtype == "uint8"):
        span = 100
    low = 0 if dtype == "uint8" else -3
    generator, numbers = torch.Generator().manual_seed(5), MT19937(5)
    for size in SIZES:
        expected = torch.randint(low, low + span, (size,), dtype=_dtype(dtype), generator=generator)
        np.testing.assert_array_equal(numbers.randint(low, low + span, size, dtype), expected.numpy())
        np.testing.assert_array_equal(
            numbers.random(size, dtype), _made(size, dtype).random_(generator=generator).numpy()
        )
        _same_state(numbers, generator)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_numbers_that_round_up_to_the_limit(dtype: str) -> None:
    generator, numbers = torch.Generator().manual_seed(2), MT19937(2)
    expected = _array(torch.rand(20000, dtype=_dtype(dtype), generator=generator))
    np.testing.assert_array_equal(numbers.rand(20000, dtype), expected)


def test_permutations() -> None:
    generator, numbers = torch.Generator().manual_seed(3), MT19937(3)
    for size in (*SIZES, 40000):
        np.testing.assert_array_equal(numbers.randperm(size), torch.randperm(size, generator=generator).numpy())
        _same_state(numbers, generator)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_a_tensor(dtype: str) -> None:
    generator, numbers = torch.Generator().manual_seed(3), MT19937(3)
    for size in SIZES:
        p = torch.linspace(0, 1, size, dtype=_dtype(dtype))
        np.testing.assert_array_equal(numbers.bernoulli(_array(p)), _array(torch.bernoulli(p, generator=generator)))
        _same_state(numbers, generator)


@pytest.mark.skipif(_INTEL, reason="needs a CPU that is not Intel's: PyTorch takes these numbers from MKL there")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count, replacement", [(1, False), (3, False), (1, True), (20, True)])
def test_multinomial(dtype: str, count: int, replacement: bool) -> None:
    generator, numbers = torch.Generator().manual_seed(3), MT19937(3)
    for _ in range(20):
        weights = torch.rand(4, 9, generator=torch.Generator().manual_seed(1)).to(_dtype(dtype))
        expected = torch.multinomial(weights, count, replacement, generator=generator).numpy()
        np.testing.assert_array_equal(numbers.multinomial(_array(weights), count, replacement, dtype), expected)
        _same_state(numbers, generator)


def test_states_cross_in_both_directions() -> None:
    generator, numbers = torch.Generator().manual_seed(11), MT19937(12)
    torch.randn(3, generator=generator)
    torch.rand(700, generator=generator)
    numbers.set_state(generator.get_state().numpy())
    assert numbers.initial_seed() == 11
    np.testing.assert_allclose(
        numbers.randn(5, "float64"), torch.randn(5, dtype=torch.float64, generator=generator).numpy()
    )
    other = torch.Generator()
    other.set_state(torch.from_numpy(numbers.get_state()))
    np.testing.assert_array_equal(numbers.rand(9), torch.rand(9, generator=other).numpy())
