"""The losses that a configuration can name, and the check that output and target have the same shape."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import netcl.autograd as ag
from netcl.trainer.cli.config import Table, nearest


def _token_cross_entropy(logits: Any, target: Any) -> Any:
    """Returns the cross-entropy of logits (..., classes) and class ids (...), as models of text give them."""
    return ag.cross_entropy(ag.reshape(logits, (-1, logits.shape[-1])), ag.reshape(target, (-1,)))


# Losses of the difference of two values: a target of another shape would be broadcast, and teach the model nothing.
_ELEMENTWISE = {
    name: getattr(ag, name)
    for name in (
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "hinge_loss",
        "binary_cross_entropy_with_logits",
    )
}
_LOSSES: dict[str, Callable[..., Any]] = {
    **_ELEMENTWISE,
    **{name: getattr(ag, name) for name in ("cross_entropy", "nll_loss")},
    "token_cross_entropy": _token_cross_entropy,
}
# The classes of netcl.nn, which a reader of Python code writes.
_CLASSES = {
    "CrossEntropyLoss": "cross_entropy",
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "NLLLoss": "nll_loss",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}


def named_loss(table: Table) -> Callable[..., Any] | None:
    """Returns the function of ``loss`` in [trainer]; None if the table names none.

    Raises ConfigFileError for an unknown name. A loss of differences raises it at the first batch for an output and a
    target of different shapes.
    """
    given = table.take("loss", "str")
    if given is None:
        return None
    name = _CLASSES.get(given, given)
    if name not in _LOSSES:
        raise table.error(f"unknown loss {given!r}{nearest(given, sorted(_LOSSES))}", "loss")
    return same_shapes(_LOSSES[name], table) if name in _ELEMENTWISE else _LOSSES[name]


def same_shapes(loss: Callable[..., Any], table: Table) -> Callable[..., Any]:
    """Returns a loss that raises ConfigFileError for an output and a target of different shapes."""

    @functools.wraps(loss)
    def checked(output: Any, target: Any) -> Any:
        shapes = tuple(getattr(output, "shape", ())), tuple(target.shape)
        if shapes[0] != shapes[1]:
            raise table.error(
                f"{loss.__name__}: expected an output of the target's shape {shapes[1]}, got {shapes[0]}"
                + _advice(*shapes),
                "loss",
            )
        return loss(output, target)

    return checked


def _advice(output: tuple[int, ...], target: tuple[int, ...]) -> str:
    if output == (*target, 1):
        return f'; write ["Flatten", {len(target) - 1}] as the last of layers'
    return "; give the model's last layer as many outputs as a target has values"
