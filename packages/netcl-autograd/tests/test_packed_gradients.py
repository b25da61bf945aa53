"""The gradients of a packed linear layer: by x and bias, by central differences, twice, and in a captured step."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd.compiler import jit_compile
from netcl.autograd.compiler.training_step import compile_training_step
from netcl.core import Tensor, packed

pytestmark = pytest.mark.level("packed")

RNG = np.random.default_rng(0)


def arrays(name, rows, count):
    weight = RNG.standard_normal((rows, 256)).astype(np.float32)
    x = RNG.standard_normal((count, 256)).astype(np.float32)
    return packed.quantize(weight, name), x, RNG.standard_normal(rows).astype(np.float32)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_K"])
@pytest.mark.parametrize("count", [1, 5])
def test_gradients_are_near_central_differences(handle, name, count):
    w, x, bias = arrays(name, 7, count)
    factors = RNG.standard_normal((count, 7)).astype(np.float32)

    def loss(x, bias):
        return (ag.packed_linear(x, w, bias).tanh() * Tensor.from_host(factors)).sum()

    leaves = [Tensor.from_host(0.1 * each, requires_grad=True) for each in (x, bias)]
    loss(*leaves).backward()
    weight = w.unpack().numpy().astype(np.float64)

    def exact(x, bias):
        return (np.tanh(x @ weight.T + bias) * factors).sum()

    points = [0.1 * each.astype(np.float64) for each in (x, bias)]
    for number, leaf in enumerate(leaves):
        for at in [tuple(RNG.integers(size) for size in leaf.shape) for _ in range(10)]:
            sides = []
            for distance in (1e-5, -1e-5):
                moved = [point.copy() for point in points]
                moved[number][at] += distance
                sides.append(exact(*moved))
            assert leaf.grad.numpy()[at] == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=3e-3, abs=1e-3)


def test_second_gradients(handle):
    w, x, _ = arrays("Q8_0", 3, 2)
    leaf = Tensor.from_host(x, requires_grad=True)
    (first,) = ag.grad((ag.packed_linear(leaf, w) ** 2).sum(), [leaf], create_graph=True)
    (second,) = ag.grad((first**2).sum() / 2, [leaf])
    weight = w.unpack().numpy().astype(np.float64)
    product = 2 * weight.T @ weight
    exact = x @ product @ product
    np.testing.assert_allclose(second.numpy(), exact, rtol=0, atol=1e-4 * np.abs(exact).max())


def test_a_captured_step_reads_the_packed_weight(handle):
    w, x, _ = arrays("Q4_K", 5, 1)
    step = compile_training_step(lambda x, ids: (ag.packed_linear(x, w) + w.rows(ids)[:, :5]).sum())
    weight = w.unpack().numpy().astype(np.float64)
    for round_ in range(5):
        ids = np.array([round_ % 5])
        found = step(Tensor.from_host(x + round_), Tensor.from_host(ids)).item()
        assert found == pytest.approx(((x + round_) @ weight.T + weight[ids][:, :5]).sum(), rel=1e-3, abs=1e-2)
    assert step.replays > 0


def test_norm_gate_and_residual_have_gradients_and_jitted_products_the_same_bits():
    w, x, _ = arrays("Q8_0", 6, 2)
    others = {"bias": 6, "norm": 256, "residual": (2, 3)}
    given = {name: Tensor.from_host(RNG.standard_normal(size).astype(np.float32)) for name, size in others.items()}
    tensor = Tensor.from_host(x)

    def layer(x):
        return ag.packed_linear(x, w, **given, gate="silu")

    with ag.no_grad():
        np.testing.assert_array_equal(jit_compile(layer)(tensor).numpy(), layer(tensor).numpy())
    for value in (tensor, *given.values()):
        value.requires_grad = True
    layer(tensor).sum().backward()
    plain = [value.detach() for value in (tensor, *given.values())]
    for value in plain:
        value.requires_grad = True
    x, bias, norm, residual = plain
    y = ag.linear(ag.rms_norm(x, (256,), norm), w.unpack(), bias)
    first, second = ag.chunk(y, 2, axis=-1)
    ag.add(ag.mul(ag.silu(first), second), residual).sum().backward()
    for found, wanted in zip((tensor, *given.values()), plain):
        largest = np.abs(wanted.grad.numpy()).max()
        np.testing.assert_allclose(found.grad.numpy(), wanted.grad.numpy(), rtol=0, atol=3e-4 * largest)
