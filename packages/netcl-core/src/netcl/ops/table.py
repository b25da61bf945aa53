"""How an op is written down: each decorator makes one row of the op table and the function that calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from netcl.core.dispatch import Domain, OpRow, call_row, make_row, register_op
from netcl.core.layout import normalize_axes

Shape = tuple[int, ...]


class OpFunction(Protocol):
    """A function of the op table; ``row`` is its row."""

    row: OpRow
    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


def as_function(row: OpRow, record: bool | None) -> OpFunction:
    """The function that calls ``row``: recorded, not recorded, or as the op around it is (None)."""

    def op(*args: Any, **kwargs: Any) -> Any:
        return call_row(row, args, kwargs, record)

    op.__name__ = op.__qualname__ = row.name
    op.__doc__ = row.doc
    op.__signature__ = row.signature  # type: ignore[attr-defined]
    op.row = row  # type: ignore[attr-defined]
    return op  # type: ignore[return-value]


def _define(row: OpRow) -> OpFunction:
    return as_function(register_op(row), None)


def elementwise(
    name: str, text: str, doc: str, *, operands: str = "x", domain: Domain | None = None, amp: str = "widest", **attributes: Any
) -> OpFunction:
    """An op from the text of its expression over v0.. (``netcl.core.expr.parse``); attributes with float defaults may appear in it."""
    parameters = [f"{operand}: Expr" for operand in operands.split()]
    parameters += [f"{key}: float = {value!r}" for key, value in attributes.items()]
    namespace: dict[str, Any] = {}
    exec(f"def {name}({', '.join(parameters)}): ...", {"Expr": Any}, namespace)  # a signature for help() and for binding
    function = namespace[name]
    function.__doc__ = doc
    function.__annotations__ = {operand: "Expr" for operand in operands.split()}
    return _define(make_row(function, "expression", text=text, domain=domain or Domain(), amp=amp))


def expression(
    *,
    domain: Domain | None = None,
    amp: str = "widest",
    shapes: Callable[[Shape, Sequence[Shape], Mapping[str, Any]], Shape] | None = None,
    name: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a builder: it gets expressions for its operands and gives the expression (or a tuple of them) of the result."""

    def decorate(builder: Callable[..., Any]) -> OpFunction:
        return _define(make_row(builder, "expression", name=name, domain=domain or Domain(), amp=amp, shapes=shapes))

    return decorate


def computed(*, domain: Domain | None = None, amp: str = "widest", name: str = "") -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a function that checks its arguments and computes through the engine; its gradient stands in autograd's rules."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        return _define(make_row(function, "call", name=name, domain=domain or Domain(), amp=amp))

    return decorate


def composite(*, domain: Domain | None = None, amp: str = "widest", name: str = "") -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a plain function over other ops: recorded op by op where it is recorded, else a chain of forward calls."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        return _define(make_row(function, "composite", name=name, domain=domain or Domain(), amp=amp))

    return decorate


def reduced(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The final shape of a reduction: without the axes ``axis`` unless ``keepdims``."""
    if attributes.get("keepdims"):
        return shape
    axes = normalize_axes(attributes.get("axis"), len(shape), "reduction")
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def scalar(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The final shape of something reduced over everything."""
    return ()
