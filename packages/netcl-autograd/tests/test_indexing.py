"""Gradients of indexing in every form: repeated indices add up, what is overwritten gets none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor

RNG = np.random.default_rng(0)


def leaf(*shape: int) -> Tensor:
    return Tensor.from_host(RNG.standard_normal(shape).astype(np.float32), requires_grad=True)


# Forms of keys, with a mark on what is a tensor of the device.
I, J, M = np.array([2, 0, 2, -1]), np.array([[1], [1], [0], [3]]), np.array([True, False, True])
KEYS: dict[str, Any] = {
    "repeated": (I, "device"),
    "host list": ([2, 0, 2], "host"),
    "pairs": ((I, J), "device"),
    "around a slice": ((I, slice(None, None, -2), J), "device"),
    "beside an int": ((1, slice(1, None), I), "device"),
    "mask": (M, "device"),
    "mask of two axes": ((slice(None), RNG.random((4, 5)) > 0.5), "device"),
    "mask and array": ((M, [1, 1]), "host"),
    "reversed": ((slice(None, None, -1), Ellipsis, None, 0), "host"),
}


@pytest.mark.parametrize("name", KEYS)
def test_getitem(handle: Any, name: str) -> None:
    given, where = KEYS[name]
    x = leaf(3, 4, 5)
    host = given if isinstance(given, tuple) else (given,)
    key = tuple(Tensor.from_host(k) if where == "device" and isinstance(k, np.ndarray) else k for k in host)
    y = x[key]
    seed = RNG.standard_normal(y.shape).astype(np.float32)
    wanted = np.zeros(x.shape, np.float32)
    np.add.at(wanted, host, seed)
    (grad,) = ag.grad([y], [x], [Tensor.from_host(seed)])
    np.testing.assert_allclose(grad.numpy(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", KEYS)
def test_gradients_of_gradients(numpy_device: Any, name: str) -> None:
    given, _ = KEYS[name]
    x = Tensor.from_host(RNG.standard_normal((3, 4, 5)), "float64", requires_grad=True)
    assert ag.gradgradcheck(lambda t: t[given] ** 3, [x])


def test_what_is_overwritten_gets_no_gradient(handle: Any) -> None:
    x, values = leaf(5, 2), leaf(4, 2)
    y = ag.index_copy(x, 0, np.array([1, 3, 1, -1]), values)
    (y * Tensor.from_host(np.arange(10, dtype=np.float32).reshape(5, 2))).sum().backward()
    assert x.grad.tolist() == [[0, 1], [0, 0], [4, 5], [0, 0], [0, 0]]
    assert values.grad.tolist() == [[0, 0], [6, 7], [2, 3], [8, 9]]  # the first was overwritten by the third
    x, values = leaf(3, 2), leaf(2, 2)
    y = ag.index_put(x, (Tensor.from_host(M), None), values, accumulate=True)
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.numpy(), rtol=1e-6)
    np.testing.assert_allclose(values.grad.numpy(), 2 * y.numpy()[M], rtol=1e-6)


def test_a_number_that_is_not_finite_does_not_spread(handle: Any) -> None:
    x, values = leaf(3), leaf(2)
    y = ag.scatter(x, 0, np.array([0, 0]), values)
    grads = ag.grad([y], [x, values], [Tensor.from_host(np.array([np.inf, 1, 2], np.float32))])
    assert [g.tolist() for g in grads] == [[0, 1, 2], [0, np.inf]]


def test_the_padding_of_an_embedding_gets_no_gradient(handle: Any) -> None:
    weight, ids = leaf(5, 3), np.array([[1, 4, 1], [0, 4, 4]])
    for padding, row in ((4, 4), (-1, 4), (None, None)):
        weight.grad = None
        ag.embedding(Tensor.from_host(ids), weight, padding).sum().backward()
        counts = np.bincount(ids.reshape(-1), minlength=5)
        if row is not None:
            counts[row] = 0
        assert weight.grad.tolist() == np.repeat(counts[:, None], 3, 1).tolist()


@pytest.mark.parametrize("padding", [None, 2])
def test_an_embedding_refuses_negative_ids(handle: Any, padding: int | None) -> None:
    weight, ids = leaf(5, 3), np.array([1, -1])
    with pytest.raises(IndexError, match="embedding: index -1 is negative"):
        ag.embedding(ids, weight, padding)
    rows = ag.embedding(Tensor.from_host(ids), weight, padding)
    with pytest.raises(IndexError, match="embedding: index .* is out of range"):
        rows.numpy()


def test_sums_of_repeated_ids_are_the_same_bits(handle: Any) -> None:
    weight = leaf(11, 17)
    ids, seed = Tensor.from_host(RNG.integers(0, 11, 4000)), leaf(4000, 17).detach()

    def gradient() -> Any:
        (grad,) = ag.grad([ag.embedding(ids, weight)], [weight], [seed])
        return grad.numpy()

    first = gradient()
    assert all(np.array_equal(first, gradient()) for _ in range(3))


@pytest.mark.level("capture")
def test_a_captured_step_indexes_with_new_indices(handle: Any) -> None:
    from netcl.runtime.capture import capture

    table = Tensor.zeros((4, 2), persistent=True)

    def step(ids: Tensor, rows: Tensor) -> Tensor:
        table[ids] = rows
        table[table > 4] = -1
        return ag.index_add(table, 0, ids, rows)

    ids, rows = Tensor.from_host(np.array([0, 2])), Tensor.from_host(np.ones((2, 2), np.float32))
    replayed = capture(step, ids, rows)
    wanted = np.zeros((4, 2), np.float32)
    table.write(wanted)
    for new in ([1, 1], [3, -2]):
        values = RNG.uniform(0, 8, (2, 2)).astype(np.float32)
        out = replayed.replay(Tensor.from_host(np.array(new)), Tensor.from_host(values))
        wanted[new] = values
        wanted[wanted > 4] = -1
        added = wanted.copy()
        np.add.at(added, new, values)
        np.testing.assert_array_equal(table.numpy(), wanted)
        np.testing.assert_allclose(out.numpy(), added, rtol=1e-6)


def test_gradients_of_positions_in_a_loop(handle: Any) -> None:
    x = leaf(4, 3)
    assert [row.requires_grad for row in x] == [True] * 4
    with ag.no_grad():
        assert not x[1].requires_grad
    total = x[0] * 0
    for number, row in enumerate(x):
        total = total + row * number
    total.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat(np.arange(4, dtype=np.float32), 3).reshape(4, 3))
    doubled = x.detach() * 2
    rows = [doubled[number] for number in range(4)]
    rows[2] += x[2]  # the base takes the gradient of what was written into its view
    x.grad = None
    doubled.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy()[:, 0], [0, 0, 1, 0])
