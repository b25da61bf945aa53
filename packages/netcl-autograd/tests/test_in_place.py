"""Writing in place: values, the graph, and the rules for leaves and saved tensors."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.tensor import in_place


def _leaf(*values: float) -> Tensor:
    leaf = Tensor.from_host(np.array(values, np.float32))
    leaf.requires_grad = True
    return leaf


def test_without_a_graph_the_memory_is_written() -> None:
    p = _leaf(1, 2, 3)
    alias = p.detach()
    with ag.no_grad():
        assert in_place.write(p, p - 0.5) is p
    assert p.numpy().tolist() == alias.numpy().tolist() == [0.5, 1.5, 2.5]
    assert p.requires_grad
    assert p.grad_fn is None
    assert p.version == 1


def test_a_leaf_that_requires_grad_is_refused() -> None:
    p = _leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        in_place.write(p, p * 2)
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        in_place.fill(p, 0)


def test_a_result_is_written_and_its_gradient_is_that_of_both_ops() -> None:
    w = _leaf(1, 2, 3)
    y = w * 2
    in_place.write(y, y * y.clone())  # saves y, of which it keeps a copy
    y.sum().backward()
    assert w.grad.numpy().tolist() == [8, 16, 24]


def test_what_another_op_has_saved_makes_backward_raise() -> None:
    w = _leaf(1, 2)
    y = w * 2
    z = y * y
    in_place.write(y, y + 1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        z.sum().backward()
    y = w * 2
    in_place.write(y, ag.exp(y))
    in_place.write(y, y + 1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        y.sum().backward()


def test_what_is_replaced_has_a_gradient_of_zeros() -> None:
    w, v = _leaf(1, 2), _leaf(3, 4)
    y = w * 2
    in_place.copy(y, v)
    (y * y).sum().backward()
    assert w.grad.numpy().tolist() == [0, 0]
    assert v.grad.numpy().tolist() == [6, 8]
    plain = Tensor.zeros((2, 2))
    in_place.copy(plain, v)
    assert plain.requires_grad
    plain.sum().backward()
    assert v.grad.numpy().tolist() == [8, 10]


def test_dtypes_and_shapes_have_to_fit() -> None:
    whole, p = Tensor.from_host(np.arange(3)), Tensor.zeros((2, 3))
    with pytest.raises(DTypeError, match="float32 result cannot be stored in a int64"):
        in_place.write(whole, whole * 1.5)
    assert in_place.copy(whole, 2.7).numpy().tolist() == [2, 2, 2]
    with pytest.raises(ShapeError, match="do not broadcast"):
        in_place.write(p, Tensor.zeros((3, 2)))
    assert in_place.write(p, whole).numpy().tolist() == [[2, 2, 2], [2, 2, 2]]
