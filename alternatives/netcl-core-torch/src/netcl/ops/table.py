"""Makers of rows: from a function over other ops, a function that computes, a text, or a builder of expressions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from netcl.core.dispatch import Domain, Kernel, OpRow, call_row, explain, own_form, register_op
from netcl.core.dtypes import NAMES, kind, promote
from netcl.core.expr import Expr, Load, Scalar, Space, cast, compute, parse
from netcl.core.layout import Shape, aligned, broadcast_shapes
from netcl.ops.signatures import Signed

__all__ = ["OpFunction", "as_function", "composite", "computed", "elementwise", "expression", "reduced", "scalar"]


class OpFunction:
    """A function of the op table; ``row`` is its row."""

    def __init__(self, row: OpRow, record: bool | None) -> None:
        self.row, self.record = row, record
        self.__name__ = self.__qualname__ = row.name
        self.__doc__ = row.doc
        self.__wrapped__ = Signed(row)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return call_row(self.row, args, kwargs, self.record)
        except Exception as error:
            own = own_form(error, args, kwargs)
            if own is not None:
                return own(self.row, args, kwargs)
            explain(error, self.row, args, kwargs)
            raise

    def __repr__(self) -> str:
        return f"<op {self.__name__}{self.row.signature}>"


def as_function(row: OpRow, record: bool | None) -> OpFunction:
    """The function that calls ``row``: recorded, not recorded, or as the op around it (None)."""
    return OpFunction(row, record)


def _row(function: Any, name: str, doc: str, without: tuple[str, ...] = (), **fields: Any) -> OpRow:
    """A row of the signature of ``function``; operands are the parameters annotated with Tensor or Expr."""
    signature = inspect.signature(function)
    kept = [one for one in signature.parameters.values() if one.name not in without]
    operands = tuple(one.name for one in kept if "Tensor" in str(one.annotation) or "Expr" in str(one.annotation))
    attributes = {one.name: one.default for one in kept if one.name not in operands and one.default is not one.empty}
    row = OpRow(
        name or function.__name__, signature.replace(parameters=kept), operands=operands, attributes=attributes,
        doc=doc or inspect.getdoc(function) or function.__name__, **fields,
    )  # fmt: skip
    row.leading = bool(operands) and tuple(row.signature.parameters)[: len(operands)] == operands
    return row


def composite(
    *, domain: Domain | None = None, amp: str = "widest", name: str = "", doc: str = ""
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a plain function over other ops: while recording it is recorded op by op, else it is a chain of calls."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        row = _row(function, name, doc, composite=function, amp=amp, domain=domain or Domain())
        return as_function(register_op(row), None)

    return decorate


def computed(
    *, domain: Domain | None = None, amp: str = "widest", name: str = "", doc: str = "", dtypes: str = "any"
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a function that checks its arguments and computes through the engine."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        row = _row(function, name, doc, call=function, amp=amp, domain=domain or Domain(gradient=False), dtypes=dtypes)
        return as_function(register_op(row), None)

    return decorate


def reduced(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The final shape of a reduction: without the axes ``axis`` unless ``keepdims``."""
    if attributes.get("keepdims"):
        return shape
    axis = attributes.get("axis")
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    gone = {one % len(shape) for one in axes}
    return tuple(length for place, length in enumerate(shape) if place not in gone)


def scalar(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The final shape of a reduction over all axes."""
    return ()


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
    row = _row(function, name, doc, without=("space",), amp=amp, domain=domain or Domain())
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
