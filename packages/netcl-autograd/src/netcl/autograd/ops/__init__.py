"""The differentiable ops: every function of netcl.ops under the same name, and the losses; calls are recorded."""

from __future__ import annotations

import builtins
import sys as _sys
from typing import Any

import netcl.autograd.ops.composites
import netcl.autograd.ops.rnn_cells  # noqa: F401
import netcl.ops as _forward
from netcl.autograd import losses  # registers the rows of the losses
from netcl.autograd.__about__ import __version__
from netcl.autograd.mode import state
from netcl.core.ops_table.dispatch import TABLE, OpRow, call_row, explain, own_form
from netcl.ops.signatures import Signed


def _differentiable(row: OpRow) -> Any:
    def op(*args: Any, **kwargs: Any) -> Any:
        tape = kwargs.pop("tape", None) if kwargs else None
        if tape is None:
            try:
                return call_row(row, args, kwargs, True)
            except Exception as error:
                own = own_form(error, args, kwargs)
                if own is not None:
                    return own(row, args, kwargs)
                explain(error, row, args, kwargs)
                raise
        outer, state.tape = state.tape, tape
        try:
            return call_row(row, args, kwargs, True)
        finally:
            state.tape = outer

    op.__name__ = op.__qualname__ = row.name
    op.__doc__ = row.doc
    op.__wrapped__ = Signed(row)  # type: ignore[attr-defined]
    op.row = row  # type: ignore[attr-defined]
    return op


def __getattr__(name: str) -> Any:
    """Returns the op ``name``; it may have been registered after the import."""
    row = getattr(getattr(_forward, name, None), "row", None) or TABLE.get(name)
    if row is None or name.startswith("_"):
        raise AttributeError(
            f"module 'netcl.autograd' of netcl-autograd {__version__} has no attribute {name!r}",
            name=name,
            obj=_sys.modules["netcl.autograd"],  # Python suggests a name of the module
        )
    function = globals()[name] = _differentiable(row)
    return function


CELLS = ("gru_gates", "lstm_gates")
COMPOSITES = ("add_relu", "batch_norm2d", "conv2d_relu", "linear_relu")
LOSSES = ("ctc_loss", *losses.__all__)
__all__ = builtins.sorted(
    {
        *LOSSES,
        *COMPOSITES,
        *CELLS,
        *(name for name in _forward.__all__ if hasattr(getattr(_forward, name), "row")),
    }
)
for _name in __all__:
    __getattr__(_name)
