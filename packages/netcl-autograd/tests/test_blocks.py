"""Gradients of slices: parts of a split are joined by copies, others are added up; against sums in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import DeviceHandle, Tensor
from netcl.core.ops_table.dispatch import TABLE, pop_hook, push_hook

ROWS, COLUMNS = 3, 12
# name: what is added up of y, as slices with factors; None: y itself
CASES: dict[str, list[tuple[Any, float]]] = {
    "a split": [((slice(None), slice(4 * i, 4 * i + 4)), i + 1.0) for i in range(3)],
    "a split in another order": [((slice(None), slice(a, b)), a + 1.0) for a, b in ((7, 12), (0, 3), (3, 7))],
    "rows": [((slice(i, i + 1),), i + 2.0) for i in range(3)],
    "one part": [((slice(None), slice(2, 5)), 3.0)],
    "with a gap": [((slice(None), slice(0, 5)), 1.0), ((slice(None), slice(6, 12)), 2.0)],
    "overlapping": [((slice(None), slice(0, 7)), 1.0), ((slice(None), slice(5, 12)), 2.0)],
    "twice": [((slice(None), slice(0, 12, 2)), 1.0), ((slice(None), slice(0, 12, 2)), 2.0)],
    "of two axes": [((slice(0, 1), slice(0, 6)), 1.0), ((slice(1, 3), slice(6, 12)), 2.0)],
    "with the whole": [(None, 5.0), ((slice(None), slice(0, 6)), 1.0), ((slice(None), slice(6, 12)), 2.0)],
    "the whole between": [((slice(None), slice(0, 6)), 1.0), (None, 5.0), ((slice(None), slice(6, 12)), 2.0)],
    "no element": [((slice(None), slice(4, 4)), 1.0), ((slice(None), slice(0, 12, 1)), 2.0)],
}
JOINED = ("no element", "a split", "a split in another order", "rows", "with the whole", "the whole between")


def wanted(terms: list[tuple[Any, float]]) -> Any:
    grad = np.zeros((ROWS, COLUMNS))
    for key, factor in terms:
        grad[... if key is None else key] += factor
    return grad


def total(y: Tensor, terms: list[tuple[Any, float]]) -> Any:
    sums = [((y if key is None else y[key]) * factor).sum() for key, factor in terms]
    return sum(sums[1:], sums[0])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("leaf", [True, False])
def test_gradients_of_slices(handle: DeviceHandle, name: str, leaf: bool) -> None:
    x = Tensor.from_host(np.ones((ROWS, COLUMNS), np.float32))
    x.requires_grad = True
    y = x if leaf else x * 2
    seen: list[str] = []

    def note(next: Any, row: Any, args: Any, kwargs: Any) -> Any:
        seen.append(row.name)
        return next(row, args, kwargs)

    loss = total(y, CASES[name])
    push_hook(note)
    try:
        loss.backward()
    finally:
        pop_hook(note)
    np.testing.assert_array_equal(x.grad.numpy(), wanted(CASES[name]) * (1 if leaf else 2))
    if "strided_scatter" in TABLE:  # else the row of slices has a gradient of its own
        assert ("concatenate" in seen) == (name in JOINED)
        assert ("strided_scatter" in seen) == (name not in JOINED)


def test_a_gradient_of_slices_is_differentiated_again(handle: DeviceHandle) -> None:
    x = Tensor.from_host(np.arange(6, dtype=np.float32))
    x.requires_grad = True
    one, other = x.chunk(2)
    (grad,) = ag.grad((one**3 * other).sum(), [x], create_graph=True)
    grad.sum().backward()
    a, b = np.arange(3.0), np.arange(3.0, 6.0)
    np.testing.assert_allclose(grad.numpy(), np.concatenate([3 * a**2 * b, a**3]))
    np.testing.assert_allclose(x.grad.numpy(), np.concatenate([6 * a * b + 3 * a**2, 3 * a**2]))


def test_a_node_gives_gradients_as_tensors(handle: DeviceHandle) -> None:
    x = Tensor.from_host(np.ones((2, 4), np.float32))
    x.requires_grad = True
    (grad,) = x[:, 1:3].grad_fn(Tensor.from_host(np.full((2, 2), 3.0, np.float32)))
    np.testing.assert_array_equal(grad.numpy(), [[0, 3, 3, 0]] * 2)


def test_hooks_and_anomalies_see_whole_gradients(handle: DeviceHandle) -> None:
    x = Tensor.from_host(np.ones((2, 4), np.float32))
    x.requires_grad = True
    shapes: list[Any] = []
    x.register_hook(lambda grad: shapes.append(grad.shape))
    y = x * 1
    y.retain_grad()
    with ag.detect_anomaly():
        left, right = y[:, :2], y[:, 2:]
        (left * 2 + right).sum().backward()
    assert shapes == [(2, 4)]
    np.testing.assert_array_equal(y.grad.numpy(), [[2, 2, 1, 1]] * 2)
