"""Gradients of views by steps and of windows, by central differences, and after writes in place through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.autograd import gradcheck
from netcl.core.errors import UnsupportedError

pytestmark = pytest.mark.level("front")

VIEWS: dict[str, Callable[[Any], Any]] = {
    "overlapping": lambda x: x.as_strided((3, 2), (2, 1), 1),
    "of a transpose": lambda x: x.t().as_strided((2, 3), (1, 2)),
    "repeated": lambda x: x.as_strided((2, 2), (0, 3)),
    "windows": lambda x: x.unfold(1, 2, 1),
    "windows of a transpose": lambda x: (x * 2).t().unfold(0, 3, 2),
    "windows apart": lambda x: x.unfold(1, 1, 3),
}


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_are_those_of_differences(numpy_device: Any, name: str) -> None:
    values = np.random.default_rng(1).normal(size=(3, 4))
    weights = nc.tensor(np.arange(1.0, VIEWS[name](nc.tensor(values)).size + 1))

    def function(x: Any) -> Any:
        shown = VIEWS[name](x * x)
        return (shown.reshape(-1) * shown.reshape(-1) * weights).sum()

    assert gradcheck(function, nc.tensor(values, requires_grad=True))


def test_a_write_through_steps_is_in_the_graph(numpy_device: Any) -> None:
    x = nc.arange(6.0, requires_grad=True)
    base, source = x * 2, nc.ones(2, requires_grad=True)
    shown = base.as_strided((2,), (4,), 1)
    shown.copy_(source * 3)
    (base * base).sum().backward()
    assert base.tolist() == [0, 3, 4, 6, 8, 3]
    assert x.grad.tolist() == [0, 0, 16, 24, 32, 0]
    assert source.grad.tolist() == [18, 18]


def test_scattered_elements_take_their_gradients(numpy_device: Any) -> None:
    x, source = nc.arange(6.0, requires_grad=True), nc.ones(2, requires_grad=True)
    (x.as_strided_scatter(source, (2,), (3,)) * nc.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [0, 1, 2, 0, 4, 5]
    assert source.grad.tolist() == [0, 3]


def test_a_leaf_that_shows_a_part_of_its_storage_takes_the_gradient_of_that_part(numpy_device: Any) -> None:
    leaf = nc.arange(6.0)[2:5].detach().requires_grad_()
    shown = leaf.as_strided((4,), (1,), 1)
    assert shown.tolist() == [1, 2, 3, 4]
    (shown * nc.arange(4.0)).sum().backward()
    assert leaf.grad.tolist() == [1, 2, 3]
    scalar = nc.ones(4)[1:2].reshape(()).detach().requires_grad_()
    nc.as_strided(scalar, (), ()).backward()
    assert scalar.grad.item() == 1
    with nc.no_grad():
        leaf.as_strided((2,), (1,), 3).fill_(9)
    assert leaf.tolist() == [2, 9, 9]


def test_a_storage_that_no_tensor_of_the_graph_shows_is_refused(numpy_device: Any) -> None:
    part = nc.arange(6.0, requires_grad=True).exp()[2:]
    with pytest.raises(UnsupportedError, match="as_strided: the tensor that this is a view of is gone"):
        part.as_strided((2,), (1,), 0)
