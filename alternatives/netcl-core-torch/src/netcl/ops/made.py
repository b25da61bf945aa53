"""Rows that move tensors, that write them, and gradients as rows."""

from __future__ import annotations

import inspect
from typing import Any

from netcl_core_kit import made  # noqa: F401 - registers its rows

from netcl.core.engine.registry import engine_for
from netcl.core.ops_table.dispatch import Gradient, OpRow, register_op
from netcl.ops.kernels import rows
from netcl.ops.shape import _one_hot, _setitem
from netcl.ops.table import computed

computed(name="setitem", doc="Writes ``value`` into ``x[key]``, in place.")(_setitem)
computed(name="one_hot", doc="1 at the index and 0 elsewhere: (...) gives (..., num_classes).")(_one_hot)


def _transfer(x: Any, queue: Any) -> Any:
    engine = engine_for(queue)
    return engine.wrap(x._t.to(engine.place, copy=True))


register_op(OpRow(
    "transfer", inspect.signature(_transfer), call=_transfer, operands=("x",), doc="x on another device.", saves={"x": ()},
    vjp=lambda recorded, grad: {"x": recorded.op("transfer", grad, recorded.x.queue)},
))  # fmt: skip
rows("widest", {"torch_gradient(tensors: Tensor, plan)": None}, kernel=Gradient)
