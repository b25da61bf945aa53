"""Views that gradients need: writes into their base, or through other views, are seen.

Their memory: tests/test_memory_of_graphs.py.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor


def _parts():
    """Returns a leaf, the result of an op on it, and two squares of halves of that result."""
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    x = Tensor.from_host(values)
    x.requires_grad = True
    base = ag.mul(x, 2.0)
    left, right = base[:, :3], base[:, 3:]
    return values, x, base, ag.mul(left, left), ag.mul(right, right)


@pytest.mark.parametrize("through", ["base", "view", "other view"])
def test_a_write_after_the_op_is_seen(through):
    _, _, base, left, right = _parts()
    with ag.no_grad():
        target = {"base": base, "view": base[:, :3], "other view": base[:, 2:]}[through]
        target.add_(1.0)
    with pytest.raises(RuntimeError, match="overwritten in place after the op"):
        ag.sum(ag.add(left, right)).backward()


def test_a_write_is_seen_after_the_base_is_gone():
    _, _, base, left, right = _parts()
    with ag.no_grad():
        base.add_(1.0)
    del base
    gc.collect()
    with pytest.raises(RuntimeError, match="overwritten in place after the op"):
        ag.sum(ag.add(left, right)).backward()


def test_the_memory_of_a_saved_view_is_not_handed_to_others():
    values, x, base, left, right = _parts()
    turned = base[:, :3].transpose(0, 1)
    squares = ag.mul(turned, turned)
    flat = turned.reshape(6)  # a copy, which may not take the memory of the saved view
    with ag.no_grad():
        flat.zero_()
    del base, turned
    total = ag.add(ag.sum(squares), ag.add(ag.sum(left), ag.sum(right)))
    total.backward()
    np.testing.assert_array_equal(x.grad.to_host(), np.concatenate([16 * values[:, :3], 8 * values[:, 3:]], 1))


def test_gradients_of_gradients_go_through_saved_views():
    values, x, base, left, right = _parts()
    del base
    (first,) = ag.grad(ag.sum(ag.add(left, right)), [x], create_graph=True)
    ag.sum(ag.mul(first, first)).backward()
    np.testing.assert_array_equal(x.grad.to_host(), 128 * values)


def test_views_of_leaves_are_saved_as_they_are():
    x = Tensor.from_host(np.arange(6, dtype=np.float32))
    x.requires_grad = True
    half = x[:3]
    squares = ag.mul(half, half)
    saved = [one for one in squares.grad_fn.unpack() if isinstance(one, Tensor)]
    assert not saved or any(one is half for one in saved)  # a core that keeps a graph of its own saves no tensors
    ag.sum(squares).backward()
    np.testing.assert_array_equal(x.grad.to_host(), [0, 2, 4, 0, 0, 0])
