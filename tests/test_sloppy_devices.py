"""Gradients on a device of the least accuracy that OpenCL allows, emulated on NumPy: no digits cancel in them."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.expr import numpy_eval
from netcl.core.expr.nodes import Apply
from netcl.core.expr.prims import ULP


@pytest.fixture(params=range(3))
def sloppy(request, monkeypatch):
    """Quotients, roots and functions of float32 are off by up to as many units in the last place as OpenCL allows."""
    rng, exact = np.random.default_rng(request.param), numpy_eval._function

    def function(node):
        inner, of_run = exact(node)
        ulps = ULP.get(node.prim.name) if isinstance(node, Apply) else None
        if ulps is None or node.dtype != "float32":
            return inner, of_run

        def off(*args):
            value = np.asarray(inner(*args), np.float32)
            with np.errstate(all="ignore"):
                return value + (rng.uniform(-ulps, ulps, value.shape) * np.spacing(np.abs(value))).astype(np.float32)

        return off, of_run

    monkeypatch.setattr(numpy_eval, "_function", function)
    numpy_eval.evaluator_of.cache_clear()
    with device("cpu"):
        yield rng
    numpy_eval.evaluator_of.cache_clear()


def test_the_device_is_sloppy(sloppy):
    x = Tensor.from_host(np.linspace(1, 2, 999, dtype=np.float32))
    off = np.abs((x / 3.0).numpy() / (np.linspace(1, 2, 999) / 3) - 1).max()
    assert 5e-8 < off < 4e-7


def similarity_gradients(a, b):
    leaves = [Tensor.from_host(np.asarray(x, np.float32), requires_grad=True) for x in (a, b)]
    return [found.numpy() for found in ag.grad(ag.sum(ag.cosine_similarity(*leaves, axis=1)), leaves)]


def test_the_similarity_of_numbers_has_no_slope(sloppy):
    """Of vectors of length 1, which are numbers: it is the product of their signs. A remainder is divided by 1e-6."""
    for scale in (1.0, 1e-3, 1e-6):
        a, b = (sloppy.uniform(0.5, 2, (999, 1)) * sloppy.choice([-scale, scale], (999, 1)) for _ in range(2))
        for found in similarity_gradients(a, b):
            assert np.abs(found).max() < 1e-11 / scale


def test_the_similarity_of_parallel_vectors_has_no_slope(sloppy):
    a = sloppy.uniform(-1, 1, (99, 7)).astype(np.float32)
    for found in similarity_gradients(a, a * np.float32(2.0**-10)):
        assert np.abs(found).max() < 2e-6 * 2**10


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e15])
def test_the_gradient_of_the_similarity_is_that_of_float64(sloppy, scale):
    a, b = (sloppy.uniform(-scale, scale, (99, 7)).astype(np.float32).astype(np.float64) for _ in range(2))
    lengths = [np.sqrt((x * x).sum(1, keepdims=True)) for x in (a, b)]
    u, v = a / lengths[0], b / lengths[1]
    cosine = (u * v).sum(1, keepdims=True)
    wanted = (v - cosine * u) / lengths[0], (u - cosine * v) / lengths[1]
    for found, exact in zip(similarity_gradients(a, b), wanted):
        np.testing.assert_allclose(found, exact, rtol=0, atol=3e-6 * np.abs(exact).max())


def test_the_difference_from_tanh_keeps_its_digits(sloppy):
    x = np.concatenate([np.logspace(-6, 1, 999), [0.1, 1.5]]).astype(np.float32)
    leaf = Tensor.from_host(np.concatenate([x, -x]), requires_grad=True)
    wide = leaf.numpy().astype(np.float64)
    # The alternating series: the terms to the power of 9 are right to 1e-7 at 0.2.
    series = wide**3 / 3 - 2 * wide**5 / 15 + 17 * wide**7 / 315 - 62 * wide**9 / 2835
    exact = np.where(np.abs(wide) < 0.2, series, wide - np.tanh(wide))
    out = ag.tanhshrink(leaf)
    np.testing.assert_allclose(out.numpy(), exact, rtol=2e-6)
    (slope,) = ag.grad(ag.sum(out), [leaf])
    np.testing.assert_allclose(slope.numpy(), np.tanh(wide) ** 2, rtol=2e-6)
