"""Makers of rows: from a function over other ops, a function that computes, or a signature."""

from __future__ import annotations
import __future__

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netcl_core_kit.dispatch import Domain, OpRow, call_row, explain, own_form, register_op
from netcl_core_kit.layout import Shape
from netcl_core_kit.signatures import Signed

__all__ = [
    "OpFunction", "as_function", "composite", "composites", "computed", "new_row", "reduced", "row_of_function", "scalar",
    "signature_of",
]  # fmt: skip


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


def row_of_function(function: Any, name: str, doc: str, without: tuple[str, ...] = (), **fields: Any) -> OpRow:
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
    *,
    domain: Domain | None = None,
    amp: str = "widest",
    name: str = "",
    doc: str = "",
    forms: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a plain function over other ops: while recording it is recorded op by op, else it is a chain of calls."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        row = row_of_function(function, name, doc, composite=function, amp=amp, domain=domain or Domain(), forms=forms)
        return as_function(register_op(row), None)

    return decorate


def computed(
    *,
    domain: Domain | None = None,
    amp: str = "widest",
    name: str = "",
    doc: str = "",
    dtypes: str = "any",
    forms: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a function that checks its arguments and computes through the engine."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        fields = {"amp": amp, "domain": domain or Domain(gradient=False), "dtypes": dtypes, "forms": forms}
        row = row_of_function(function, name, doc, call=function, **fields)
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


def signature_of(text: str) -> tuple[str, inspect.Signature]:
    """The name and the signature that ``"name(x: Tensor, axis=None)"`` writes."""
    scope: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(f"def {text}: ...", text, "exec", flags=flags), scope)
    name = text.split("(")[0]
    return name, inspect.signature(scope[name])


def new_row(text: str, amp: str, dtypes: str, **fields: Any) -> OpRow:
    name, signature = signature_of(text)
    operands = tuple(p.name for p in signature.parameters.values() if "Tensor" in str(p.annotation))
    attributes = {
        p.name: p.default for p in signature.parameters.values() if p.name not in operands and p.default is not p.empty
    }
    doc = f"``{text.replace(': Tensor', '')}``, as docs/reference/core-contract.md describes it."
    leading = tuple(signature.parameters)[: len(operands)] == operands
    return register_op(
        OpRow(name, signature, doc=doc, amp=amp, dtypes=dtypes, operands=operands, attributes=attributes,
              leading=leading, **fields)
    )  # fmt: skip


def composites(amp: str, table: Mapping[str, Callable[..., Any]]) -> None:
    """Registers a composite row for each signature of ``table``."""
    for text, function in table.items():
        new_row(text, amp, "any", composite=function)
