"""The differentiable ops: every function of netcl.ops under the same name, and the losses; calls are recorded."""

from __future__ import annotations

import builtins
from typing import Any

import netcl.autograd.losses  # registers the rows of the losses
import netcl.autograd.ops.composites
import netcl.autograd.ops.rnn_cells  # noqa: F401
import netcl.ops as _forward
from netcl.autograd.mode import state
from netcl.core.dispatch import TABLE, OpRow, call_row


def _differentiable(row: OpRow) -> Any:
    def op(*args: Any, **kwargs: Any) -> Any:
        tape = kwargs.pop("tape", None) if kwargs else None
        if tape is None:
            return call_row(row, args, kwargs, True)
        outer, state.tape = state.tape, tape
        try:
            return call_row(row, args, kwargs, True)
        finally:
            state.tape = outer

    op.__name__ = op.__qualname__ = row.name
    op.__doc__ = row.doc
    op.__signature__ = row.signature  # type: ignore[attr-defined]
    op.row = row  # type: ignore[attr-defined]
    return op


def __getattr__(name: str) -> Any:
    """The op ``name``; it may have been registered after the import."""
    row = getattr(getattr(_forward, name, None), "row", None) or TABLE.get(name)
    if row is None or name.startswith("_"):
        raise AttributeError(f"module 'netcl.autograd' has no attribute {name!r}")
    function = globals()[name] = _differentiable(row)
    return function


CELLS = ("gru_gates", "lstm_gates")
COMPOSITES = ("add_relu", "batch_norm2d", "conv2d_relu", "linear_relu")
LOSSES = (
    "batch_all_triplet_loss",
    "batch_hard_triplet_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "contrastive_loss",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "focal_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "hinge_loss",
    "huber_loss",
    "info_nce_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_loss",
    "triplet_margin_loss",
)
__all__ = builtins.sorted(
    {*LOSSES, *COMPOSITES, *CELLS, *(name for name in _forward.__all__ if hasattr(getattr(_forward, name), "row"))}
)
for _name in __all__:
    __getattr__(_name)
