"""Level prediction: a loop has the values of its calls, however the core computes them."""

from __future__ import annotations

import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import assign
from netcl.runtime.prediction import boundary, event, hint
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor


class _Owner:
    """Stands for an optimizer."""


@event
def _add_to(total: Tensor, x: Tensor) -> None:
    assign(total, ops.add(total, x))


@check("prediction")
def a_loop_has_the_values_of_its_calls() -> None:
    owner, total, products = _Owner(), Tensor.zeros((2,)), []
    hint()
    for number in range(8):
        x = tensor([1.0, float(number)])
        product = ops.mul(x, 2)
        if number == 6:
            assert product.tolist() == [2, 12], "a value is read in the middle"
        _add_to(total, product)
        products.append(product)
        boundary(owner, total.engine)
    assert_close(total, [16.0, 56.0])
    assert_close(products[3], [2.0, 6.0])
    assert_close(products[7], [2.0, 14.0])


@check("prediction")
def an_event_returns_what_its_function_returns() -> None:
    assert event(lambda x, y=0: (x, y))(1, y=2) == (1, 2)
    assert hint() in (True, False)
