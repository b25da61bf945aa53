"""Integers that set an amount of memory or a number of loops are bounded, with an error at once."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc
from netcl import ops
from netcl.core.errors import OutOfMemoryError, ShapeError

FACTORIES = {
    "hann_window": ops.hann_window,
    "hamming_window": ops.hamming_window,
    "blackman_window": ops.blackman_window,
    "bartlett_window": ops.bartlett_window,
    "kaiser_window": ops.kaiser_window,
    "tril_indices": lambda n: ops.tril_indices(n, n),
    "triu_indices": lambda n: ops.triu_indices(n, n),
    "arange": lambda n: nc.arange(0.0, float(n)),
    "range": lambda n: nc.range(0, n),
    "linspace": lambda n: nc.linspace(0, 1, n),
    "logspace": lambda n: nc.logspace(0, 1, n),
    "eye": nc.eye,
}


@pytest.mark.parametrize("length", [2**40, 10**30])
@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_a_factory_is_bounded_by_the_memory_of_the_device(make, length, handle):
    with nc.device(handle), pytest.raises(OutOfMemoryError, match="requested"):
        make(length)


def test_the_parts_of_an_axis_are_bounded():
    x = nc.ones(2, 4, 3)
    for sections in (2**31, 10**30):
        with pytest.raises(ShapeError, match=f"{sections} parts; there may be at most 65536"):
            nc.tensor_split(x, sections)
        for split in (nc.vsplit, nc.hsplit, nc.dsplit):
            with pytest.raises(ShapeError, match=f"split: {sections} equal parts of an axis of length"):
                split(x, sections)
    assert [len(nc.tensor_split(x, 7)), len(nc.vsplit(x, 2)), len(nc.hsplit(x, 4)), len(nc.dsplit(x, 3))] == [
        7,
        2,
        4,
        3,
    ]


def test_more_parts_than_elements_are_as_those_of_numpy():
    parts = nc.tensor_split(nc.arange(3), 1000)
    assert [part.shape for part in parts] == [part.shape for part in np.array_split(np.arange(3), 1000)]


def test_terms_of_an_expression_are_bounded():
    x = nc.ones(2)
    with pytest.raises(ShapeError, match="from 1 to 128"):
        nc.multigammaln(x, 2**31)
    for order in (2**31, 10**30):
        with pytest.raises(ValueError, match="from 0 to 150"):
            nc.polygamma(order, x)


@pytest.mark.parametrize("extent", range(1, 12))
def test_adaptive_sections_have_the_lengths_of_their_definition(extent, handle):
    x = np.random.default_rng(extent).permutation(np.arange(extent, dtype=np.float32))
    for out in range(1, 30):
        bounds = [(i * extent // out, -(-(i + 1) * extent // out)) for i in range(out)]
        expected = [max(x[a:b]) for a, b in bounds]
        made = nc.adaptive_max_pool1d(nc.tensor(x[None, None], device=handle), out)
        assert made.to_host()[0, 0].tolist() == expected


@pytest.mark.parametrize("with_replacement", [False, True])
def test_combinations_are_bounded_by_the_memory_of_the_device(with_replacement):
    for r in (10, 500):
        with pytest.raises(OutOfMemoryError, match="combinations: .*requested"):
            nc.combinations(nc.arange(1000.0), r, with_replacement)
    with pytest.raises(ShapeError, match="r from 0 to 2"):
        nc.combinations(nc.arange(3.0), 10**30, with_replacement)
    assert nc.combinations(nc.arange(3.0), 3, with_replacement).shape == (10 if with_replacement else 1, 3)
