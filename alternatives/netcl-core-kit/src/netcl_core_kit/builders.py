"""Rows of builders of expressions, and of texts: bound to arguments here, evaluated by a core."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from netcl_core_kit.dispatch import Domain, _core, register_op
from netcl_core_kit.dtypes import kind, promote
from netcl_core_kit.expr import Expr, Load, Scalar, Space, cast, parse
from netcl_core_kit.layout import Shape, aligned, broadcast_shapes
from netcl_core_kit.rows import OpFunction, as_function, row_of_function

__all__ = ["BuiltCall", "Builder", "elementwise", "expression"]


class BuiltCall(NamedTuple):
    """A call of a row of a builder: expressions over the values ``given``, ``scalars`` by name, whether it has one result,
    and the shape of a result for that of its expression.
    """

    outputs: tuple[Expr, ...]
    given: list[Any]
    scalars: dict[str, Any]
    single: bool
    shape: Callable[[Shape], Shape]


class Builder:
    """Binds a builder to arguments: makes expressions for their shapes and dtypes, once for each combination."""

    def __init__(self, builder: Callable[..., Any], shapes: Any, row: Any) -> None:
        self.builder, self.shapes, self.row, self.operands = builder, shapes, row, row.operands
        self.floats = tuple(key for key, value in row.attributes.items() if type(value) is float)
        self.space = "space" in inspect.signature(builder).parameters
        self._cache: dict[Any, Any] = {}

    def bind(self, args: Any, kwargs: Any, described: Callable[[Any], tuple[str, Shape] | None]) -> BuiltCall:
        """The call for arguments, of which ``described`` tells the dtype and the shape of a tensor, None for others."""
        row = self.row
        bound = row.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = bound.arguments
        given = [values[name] for name in self.operands]
        seen = [described(one) for one in given]
        tensors = [one for one in seen if one is not None]
        shape = broadcast_shapes([one[1] for one in tensors], row.name)
        common = promote(*([one[0] for one in tensors if one[1] or not shape] or [one[0] for one in tensors]))
        kinds: list[Any] = []
        for value, one in zip(given, seen):
            if one is not None:
                kinds.append((common if not one[1] and kind(one[0]) == kind(common) else one[0], one[1]))
            else:
                kinds.append(None if value is None else (promote(common, type(value)), None))
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

        def final(result: Shape) -> Shape:
            if self.shapes is None:
                return result
            attributes = {name: one for name, one in values.items() if name not in self.operands}
            return self.shapes(result, [None if one is None else one[1] for one in seen], attributes)  # type: ignore[no-any-return]

        scalars = {name: values[name] for name in self.floats}
        return BuiltCall(found[0], [0 if one is None else one for one in given], scalars, found[1], final)

    def _build(self, kinds: list[Any], static: Mapping[str, Any], shape: Shape) -> tuple[tuple[Expr, ...], bool]:
        nodes = [None if one is None else Load(slot, one[0]) for slot, one in enumerate(kinds)]
        arguments: dict[str, Any] = dict(zip(self.operands, nodes)) | dict(static)
        arguments |= {name: Scalar(name, "float32") for name in self.floats}
        if self.space:
            shapes = tuple(None if one is None or one[1] is None else aligned(one[1], len(shape)) for one in kinds)
            arguments["space"] = Space(len(shape), shapes, self.row.name)
        result = self.builder(**arguments)
        single = not isinstance(result, tuple)
        nodes_of = (result,) if single else result
        return tuple(one if isinstance(one, Expr) else cast(one, "float32") for one in nodes_of), single


def _row(
    function: Any, builder: Any, name: str, doc: str, shapes: Any, amp: str, domain: Any, forms: str
) -> OpFunction:
    row = row_of_function(function, name, doc, without=("space",), amp=amp, domain=domain or Domain(), forms=forms)
    _core.evaluated(row, Builder(builder, shapes, row))
    return as_function(register_op(row), None)


def expression(
    *, domain: Domain | None = None, amp: str = "widest",
    shapes: Callable[[Shape, Sequence[Shape], Mapping[str, Any]], Shape] | None = None, name: str = "", forms: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:  # fmt: skip
    """Decorates a builder: it gets expressions for its operands and returns the result's expression, or a tuple."""

    def decorate(builder: Callable[..., Any]) -> OpFunction:
        return _row(builder, builder, name, "", shapes, amp, domain, forms)

    return decorate


def elementwise(
    name: str, text: str, doc: str, *, operands: str = "x", domain: Domain | None = None, amp: str = "widest",
    forms: str = "", **attributes: Any,
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
    return _row(function, builder, name, doc, None, amp, domain, forms)
