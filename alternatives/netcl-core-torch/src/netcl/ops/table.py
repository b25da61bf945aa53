"""Makers of rows: those of netcl-core-kit, and rows of texts and of builders of expressions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from netcl_core_kit.rows import OpFunction, as_function, composite, computed, reduced, row_of_function, scalar

from netcl.core.dispatch import Domain, Kernel, OpRow, register_op
from netcl.core.dtypes import NAMES, kind, promote
from netcl.core.expr import Expr, Load, Scalar, Space, cast, compute, parse
from netcl.core.layout import Shape, aligned, broadcast_shapes

__all__ = ["OpFunction", "as_function", "composite", "computed", "elementwise", "expression", "reduced", "scalar"]


class _Built:
    """The computation of a row of a builder: expressions for the shapes and dtypes given, evaluated by PyTorch."""

    def __init__(
        self, builder: Callable[..., Any], shapes: Any, operands: tuple[str, ...], floats: tuple[str, ...]
    ) -> None:
        self.builder, self.shapes, self.operands, self.floats = builder, shapes, operands, floats
        self.row: OpRow | None = None
        self.space = "space" in inspect.signature(builder).parameters
        self._cache: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        row = self.row
        assert row is not None
        bound = row.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = bound.arguments
        given = [values[name] for name in self.operands]
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        shape = broadcast_shapes([tuple(one.shape) for one in tensors], row.name)
        wide = [NAMES[one.dtype] for one in tensors if one.dim() or not shape]
        common = promote(*(wide or [NAMES[one.dtype] for one in tensors]))
        kinds: list[Any] = []
        for one in given:
            if isinstance(one, torch.Tensor):
                own = NAMES[one.dtype]
                kinds.append((common if not one.dim() and kind(own) == kind(common) else own, tuple(one.shape)))
            else:
                kinds.append(None if one is None else (promote(common, type(one)), None))
        static = {name: one for name, one in values.items() if name not in self.operands and name not in self.floats}
        try:
            key = (tuple(kinds), tuple(static.items()))
            found = self._cache.get(key)
        except TypeError:
            key = found = None
        if found is None:
            found = self._build(kinds, static, shape)
            if key is not None:
                self._cache[key] = found
        outputs, single = found
        scalars = {name: values[name] for name in self.floats}
        engine = _engine_of(tensors)
        results = compute(outputs, [0 if one is None else one for one in given], scalars, engine)
        results = [one.clone() if _shared(one, tensors) else one for one in results]
        if self.shapes is not None:
            shapes = [tuple(one.shape) if isinstance(one, torch.Tensor) else None for one in given]
            attributes = {name: one for name, one in values.items() if name not in self.operands}
            results = [one.reshape(self.shapes(tuple(one.shape), shapes, attributes)) for one in results]
        return results[0] if single else tuple(results)

    def _build(self, kinds: list[Any], static: Mapping[str, Any], shape: Shape) -> tuple[tuple[Expr, ...], bool]:
        nodes = [None if one is None else Load(slot, one[0]) for slot, one in enumerate(kinds)]
        assert self.row is not None
        arguments: dict[str, Any] = dict(zip(self.operands, nodes)) | dict(static)
        arguments |= {name: Scalar(name, "float32") for name in self.floats}
        if self.space:
            shapes = tuple(None if one is None or one[1] is None else aligned(one[1], len(shape)) for one in kinds)
            arguments["space"] = Space(len(shape), shapes, self.row.name)
        result = self.builder(**arguments)
        single = not isinstance(result, tuple)
        nodes_of = (result,) if single else result
        return tuple(one if isinstance(one, Expr) else cast(one, "float32") for one in nodes_of), single


def _shared(value: torch.Tensor, tensors: Sequence[torch.Tensor]) -> bool:
    """True if a result shows the memory of an operand, or has elements that share memory."""
    own = value.untyped_storage()._cdata
    return 0 in value.stride() and value.numel() > 1 or any(own == one.untyped_storage()._cdata for one in tensors)


def _engine_of(tensors: Sequence[torch.Tensor]) -> Any:
    from netcl.core.backend.registry import engine_for
    from netcl.core.device import get_active_device, manager

    place = tensors[0].device
    active = get_active_device()
    if active.queue.place == place:
        return engine_for(active)
    return engine_for(manager.default("cpu" if place.type == "cpu" else f"{place.type}:{place.index or 0}"))


def _expression_row(function: Any, builder: Any, name: str, doc: str, shapes: Any, amp: str, domain: Any) -> OpRow:
    row = row_of_function(function, name, doc, without=("space",), amp=amp, domain=domain or Domain())
    floats = tuple(key for key, value in row.attributes.items() if type(value) is float)
    built = _Built(builder, shapes, row.operands, floats)
    kernel = Kernel(row.name, built, elementwise=True)
    built.row = kernel.of(row).row
    kernel.differentiable = True
    row.call, row.vjp, row.saves = kernel, kernel.vjp, {}
    return register_op(row)


def expression(
    *, domain: Domain | None = None, amp: str = "widest",
    shapes: Callable[[Shape, Sequence[Shape], Mapping[str, Any]], Shape] | None = None, name: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:  # fmt: skip
    """Decorates a builder: it gets expressions for its operands and returns the result's expression, or a tuple."""

    def decorate(builder: Callable[..., Any]) -> OpFunction:
        return as_function(_expression_row(builder, builder, name, "", shapes, amp, domain), None)

    return decorate


def elementwise(
    name: str, text: str, doc: str, *, operands: str = "x", domain: Domain | None = None, amp: str = "widest",
    **attributes: Any,
) -> OpFunction:  # fmt: skip
    """Makes an op from the text of its expression over v0.. ; attributes with float defaults may appear in it."""
    names = operands.split()
    parse(text, len(names), {key: Scalar(key, "float32") for key in attributes})

    def builder(**given: Any) -> Any:
        return parse(text, [given[one] for one in names], {key: given[key] for key in attributes})

    parameter, kinds = inspect.Parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [parameter(one, kinds, annotation="Tensor") for one in names]
    parameters += [parameter(key, kinds, default=value) for key, value in attributes.items()]

    def function(*args: Any) -> Any:
        return args

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return as_function(_expression_row(function, builder, name, doc, None, amp, domain), None)
