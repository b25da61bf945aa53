"""Decorators that define an op: each makes one row of the op table and the function that calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Protocol

from netcl.core.dtypes import FLOATING, is_floating, promote
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import ensure_same_backend
from netcl.core.errors import DTypeError
from netcl.core.expr import Load
from netcl.core.expr import cast as cast_expr
from netcl.core.layout import reduced_axes
from netcl.core.ops_table.dispatch import Domain, OpRow, call, caller, make_row, register_op
from netcl.core.tensor import Tensor
from netcl.ops.signatures import Signed

Shape = tuple[int, ...]

# Forms of rows, see OpRow.
METHOD = "x.*"
WRITTEN = f"{METHOD} x.*_"
WRITTEN_TOO = f"{WRITTEN} nc.*_"


class OpFunction(Protocol):
    """A function of the op table; ``row`` is its row."""

    row: OpRow
    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


def as_function(row: OpRow, record: bool | None) -> OpFunction:
    """Returns the function that calls ``row``: recorded, not recorded, or as the op around it (None)."""
    op = caller(row, record)
    op.__name__ = op.__qualname__ = row.name
    op.__doc__ = row.doc
    op.__wrapped__ = Signed(row)  # type: ignore[attr-defined]
    op.row = row  # type: ignore[attr-defined]
    return op  # type: ignore[return-value]


# The functions of the rows that the decorators below made, by name; netcl.ops takes its own from here.
FUNCTIONS: dict[str, OpFunction] = {}


def _define(row: OpRow) -> OpFunction:
    function = FUNCTIONS[row.name] = as_function(register_op(row), None)
    return function


def elementwise(
    name: str,
    text: str,
    doc: str,
    *,
    operands: str = "x",
    domain: Domain | None = None,
    amp: str = "widest",
    forms: str = "",
    **attributes: Any,
) -> OpFunction:
    """Makes an op from its expression's text over v0.. (``expr.parse``); attributes with float defaults may appear."""
    parameters = [f"{operand}: Expr" for operand in operands.split()]
    parameters += [f"{key}: float = {value!r}" for key, value in attributes.items()]
    namespace: dict[str, Any] = {}
    exec(
        f"def {name}({', '.join(parameters)}): ...", {"Expr": Any}, namespace
    )  # a signature for help() and for binding
    function = namespace[name]
    function.__doc__ = doc
    function.__annotations__ = dict.fromkeys(operands.split(), "Expr")
    return _define(make_row(function, "expression", text=text, domain=domain or Domain(), amp=amp, forms=forms))


def expression(
    *,
    domain: Domain | None = None,
    amp: str = "widest",
    shapes: Callable[[Shape, Sequence[Shape], Mapping[str, Any]], Shape] | None = None,
    name: str = "",
    forms: str = "",
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a builder: it gets expressions for its operands and returns that of the result, or a tuple of them."""

    def decorate(builder: Callable[..., Any]) -> OpFunction:
        fields: dict[str, Any] = {"domain": domain or Domain(), "amp": amp, "shapes": shapes, "forms": forms}
        return _define(make_row(builder, "expression", name=name, **fields))

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
    """Decorates a function that checks its arguments and computes through the engine; its gradient is among autograd's
    rules. ``dtypes`` are for the first operand: ``any``, ``numbers`` (no bool) or ``floating``.
    """

    def decorate(function: Callable[..., Any]) -> OpFunction:
        function.__doc__ = doc or function.__doc__
        fields: dict[str, Any] = {"domain": domain or Domain(), "amp": amp, "dtypes": dtypes, "forms": forms}
        return _define(make_row(function, "call", name=name, **fields))

    return decorate


def with_gradient(
    vjp: Callable[[Any, Any], Mapping[str, Any]],
    saves: Mapping[str, tuple[str, ...]],
    *,
    domain: Domain,
    dtypes: str = "any",
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates as ``computed`` an op that has a gradient of its own, ``vjp``, which reads what it ``saves``."""
    return lambda function: _define(make_row(function, "call", domain=domain, dtypes=dtypes, vjp=vjp, saves=saves))


def viewed(*, domain: Domain, forms: str = "") -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates as ``computed`` an op with a view of its operand as the result, where strides allow one."""
    return lambda function: _define(make_row(function, "call", domain=domain, view=True, forms=forms))


def multiplied(
    product: Callable[..., Any], *, domain: Domain | None = None, amp: str = "widest", forms: str = ""
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates as ``computed`` an op with matrix products, or copies, as calls: ``product`` describes each (OpRow)."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        fields: dict[str, Any] = {"domain": domain or Domain(), "amp": amp, "product": product, "forms": forms}
        return _define(make_row(function, "call", **fields))

    return decorate


def composite(
    *, domain: Domain | None = None, amp: str = "widest", name: str = "", doc: str = "", forms: str = ""
) -> Callable[[Callable[..., Any]], OpFunction]:
    """Decorates a plain function over other ops: it is recorded op by op, else a chain of calls."""

    def decorate(function: Callable[..., Any]) -> OpFunction:
        function.__doc__ = doc or function.__doc__
        return _define(make_row(function, "composite", name=name, domain=domain or Domain(), amp=amp, forms=forms))

    return decorate


def of_scalars(operands: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function: its named operands without axes count as one element along an axis, as in PyTorch. The
    result has no axis if the first of them has none.
    """
    names = operands.split()

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        places = signature(function)

        @wraps(function)
        def op(*args: Any, **kwargs: Any) -> Any:
            for value in (*args, *kwargs.values()) if kwargs else args:
                if isinstance(value, Tensor) and not value.shape:
                    break
            else:  # nearly every call
                return function(*args, **kwargs)
            bound = places.bind(*args, **kwargs)
            values = bound.arguments
            alone = [name for name in names if isinstance(x := values.get(name), Tensor) and not x.shape]
            values.update({name: call("reshape", values[name], (1,)) for name in alone})
            result = function(*bound.args, **bound.kwargs)
            return call("reshape", result, ()) if names[0] in alone and result.shape else result

        return op

    return decorate


def reduced(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Returns the final shape of a reduction: without the axes ``axis`` unless ``keepdims``."""
    if attributes.get("keepdims"):
        return shape
    axes = reduced_axes(attributes.get("axis"), len(shape), "reduction")
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def scalar(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Returns the final shape of a reduction over all axes."""
    return ()


def engine_of(op: str, *operands: Any) -> DeviceBackend:
    """Returns the engine of all tensors (None is skipped); TypeError for others, BackendMismatchError for several."""
    if len(operands) == 1 and isinstance(operands[0], Tensor):
        return operands[0].engine
    for operand in operands:
        if operand is not None and not isinstance(operand, Tensor):
            raise TypeError(
                f"{op}: expected tensors as operands, got {type(operand).__name__}; write Tensor.from_host(array)"
            )
    first = operands[0]
    if first is not None and all(other is None or other.engine is first.engine for other in operands):
        engine: DeviceBackend = first.engine
        return engine
    return ensure_same_backend([operand for operand in operands if operand is not None], op)


def as_dtype(x: Tensor, dtype: str) -> Tensor:
    """Returns ``x`` converted on its engine, or itself if it has the dtype; never recorded: for computed ops."""
    if x.dtype == dtype:
        return x
    return x.engine.run((cast_expr(Load(0, x.dtype), dtype),), (x,))[0]


def floating(op: str, *operands: Tensor | None) -> list[Any]:
    """Returns the operands (None stays) in the floating dtype that they promote to; DTypeError if not floating."""
    dtypes = [operand.dtype for operand in operands if operand is not None]
    if len(set(dtypes)) == 1 and dtypes[0] in FLOATING:
        return [*operands]
    dtype = promote(*dtypes)
    if not is_floating(dtype):
        raise DTypeError(f"{op}: expected floating dtypes, got {' and '.join(dtypes)}; convert with astype")
    return [None if operand is None else as_dtype(operand, dtype) for operand in operands]
