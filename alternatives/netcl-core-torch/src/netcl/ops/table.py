"""Makers of rows: those of netcl-core-kit, whose expressions PyTorch evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from netcl_core_kit.builders import Builder, elementwise, expression
from netcl_core_kit.rows import OpFunction, as_function, composite, computed, reduced, scalar

from netcl.core.device import get_active_device, manager
from netcl.core.dtypes import NAMES
from netcl.core.engine.registry import engine_for
from netcl.core.expr import compute
from netcl.core.ops_table.dispatch import Kernel, OpRow, use_builders

__all__ = ["OpFunction", "as_function", "composite", "computed", "elementwise", "expression", "reduced", "scalar"]


class _Evaluated:
    """The computation of a row of a builder."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self.builder.bind(args, kwargs, _described)
        tensors = [one for one in call.given if isinstance(one, torch.Tensor)]
        results = compute(call.outputs, call.given, call.scalars, _engine_of(tensors))
        results = [one.clone() if _shared(one, tensors) else one for one in results]
        results = [one.reshape(call.shape(tuple(one.shape))) for one in results]
        return results[0] if call.single else tuple(results)


def _described(value: Any) -> Any:
    return (NAMES[value.dtype], tuple(value.shape)) if isinstance(value, torch.Tensor) else None


def _shared(value: torch.Tensor, tensors: Sequence[torch.Tensor]) -> bool:
    """True if a result shows the memory of an operand, or has elements that share memory."""
    own = value.untyped_storage()._cdata
    return 0 in value.stride() and value.numel() > 1 or any(own == one.untyped_storage()._cdata for one in tensors)


def _engine_of(tensors: Sequence[torch.Tensor]) -> Any:
    place = tensors[0].device
    active = get_active_device()
    if active.queue.place == place:
        return engine_for(active)
    return engine_for(manager.default("cpu" if place.type == "cpu" else f"{place.type}:{place.index or 0}"))


def _evaluated(row: OpRow, builder: Builder) -> None:
    """Makes ``builder`` what computes ``row``."""
    kernel = Kernel(row.name, _Evaluated(builder), elementwise=True).of(row)
    kernel.differentiable = True
    row.call, row.vjp, row.saves = kernel, kernel.vjp, {}


use_builders(_evaluated)
