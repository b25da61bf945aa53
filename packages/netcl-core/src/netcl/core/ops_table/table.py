"""The op table: what an op is, and the one place where all of them stand."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.core.layout import every_axis_if_empty

Shape = tuple[int, ...]
Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class Domain:
    """The domain of an op's tests: operands uniform in [low, high), at least ``away`` from the points
    ``kinks``.

    ``cases(rng)`` yields (operands as arrays or numbers, attributes) for ops that broadcasting elementwise samples do
    not suit. ``reference(*arrays, **attributes)`` is the same in NumPy, float64.
    """

    low: float = -2.0
    high: float = 2.0
    kinks: tuple[float, ...] = ()
    away: float = 0.05
    cases: Callable[[Any], Cases] | None = None
    reference: Callable[..., Any] | None = None
    gradient: bool = True
    second: bool = True


@dataclass(frozen=True, eq=False)
class OpRow:
    """One op. ``expression`` builds the result from expressions (or is its text over v0..); ``call`` computes it
    through the engine; ``composite`` is a plain function over other ops.

    ``shapes(shape, operand_shapes, attributes)`` turns an output's shape in the iteration space into the final one.
    Attributes with a float as default are launch scalars, all others are part of the kernel. ``dtypes`` of a computed
    row, of its first operand: ``any``, ``numbers`` (no bool) or ``floating``. ``amp``: ``half``, ``float32`` or
    ``widest``. ``leading``: the operands are the first parameters.

    ``open``: the last operand is ``*tensors``.

    ``vjp(call, grad)`` returns the gradients of a row without expression by the names of its operands; netcl-autograd
    has rules for the computed rows of this core, and takes ``vjp`` before a rule. ``saves``: for each operand the names
    of the operands and results (``out``, ``out1``) that its gradient reads; None saves all.

    ``product(*args, **kwargs)`` of a computed row describes the Product, or the Copies, that a call is, for an engine
    to repeat the call; None for a call that is more than that. ``view``: a computed row gives a view of its operand
    where its strides allow one.

    ``forms``: the other forms in which PyTorch or the array API standard has the op, with ``*`` for its name: ``x.*`` a
    method, ``x.*_`` the method that writes the result into the tensor, ``nc.*_`` the function that does, ``F.*`` a
    function of nn.functional with the argument ``inplace``, ``F.*_`` the one that writes, ``a.*`` a function of
    netcl.array_api.
    """

    name: str
    signature: inspect.Signature
    expression: Callable[..., Any] | str | None = None
    call: Callable[..., Any] | None = None
    composite: Callable[..., Any] | None = None
    shapes: Callable[[Shape, Sequence[Shape], Mapping[str, Any]], Shape] | None = None
    dtypes: str = "any"
    domain: Domain = field(default_factory=Domain)
    amp: str = "widest"
    doc: str = ""
    operands: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    wants_space: bool = False
    leading: bool = True
    open: bool = False
    vjp: Callable[[Any, Any], Mapping[str, Any]] | None = None
    saves: Mapping[str, tuple[str, ...]] | None = None
    product: Callable[..., Any] | None = None
    view: bool = False
    forms: str = ""

    def names(self, space: str, written: bool = False) -> list[str]:
        """Returns names of forms in ``space`` (x, nc, F or a): plain ones, or ``written`` ones without their last _."""
        if f"{space}." not in self.forms:
            return []
        forms = (form.partition(".") for form in self.forms.split())
        names = [name.replace("*", self.name) for place, _, name in forms if place == space]
        return [name.removesuffix("_") for name in names if name.endswith("_") == written]


TABLE: dict[str, OpRow] = {}

# Other spellings of a parameter, PyTorch's or NumPy's -> candidates: the one that a row has is taken; all are
# accepted. unbiased is correction 1 or 0, as True and False are.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "dim": ("axis",), "keepdim": ("keepdims",), "pad": ("padding",), "dims": ("axes", "axis", "reps"),
    "input": ("x", "a"), "other": ("b",), "unbiased": ("correction",), "ddof": ("correction",), "mat1": ("a",),
    "mat2": ("b",), "vec": ("b",), "vec2": ("b",), "end": ("b",), "exponent": ("b",), "x1": ("a",), "x2": ("b",),
    "batch1": ("a",), "batch2": ("b",), "tensor": ("b", "x"), "split_size": ("size",),
    "split_size_or_sections": ("size",), "shifts": ("shift",), "train": ("training",),
}  # fmt: skip
# The same for one row, where the name means something else in others.
_OF_ROW: dict[str, dict[str, str]] = {
    "expand": {"size": "shape"}, "heaviside": {"values": "b"}, "prelu": {"weight": "alpha"},
    "searchsorted": {"input": "values"}, "take": {"index": "indices"},
}  # fmt: skip
# Ops that take empty axes for every axis, given by position or as ``dim`` or ``dims`` in PyTorch's call forms: the
# position of the axes. By NumPy's name ``axis`` they are no axis; of ``any`` and ``all`` they are none by all names.
EMPTY_IS_EVERY_AXIS = {
    "amax": 1, "amin": 1, "argmax": 1, "argmin": 1, "count_nonzero": 1, "logsumexp": 1, "max": 1, "mean": 1, "min": 1,
    "prod": 1, "std": 1, "std_mean": 1, "sum": 1, "var": 1, "var_mean": 1,
    "linalg_norm": 2, "linalg_vector_norm": 2, "norm": 2, "roll": 2,
}  # fmt: skip
SPELLINGS = frozenset(SYNONYMS).union(*_OF_ROW.values())


def names_of(row: OpRow) -> dict[str, str]:
    """Returns the other names of parameters that calls of ``row`` may give -> its own."""
    known = row.signature.parameters
    spellings = {}
    for name, candidates in SYNONYMS.items():
        own = next((candidate for candidate in candidates if candidate in known), None)
        if name not in known and own is not None:
            spellings[name] = own
    return {**spellings, **_OF_ROW.get(row.name, {})}


def by_own_names(row: OpRow, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns keyword arguments with PyTorch's spelling of a parameter exchanged for the row's own."""
    known = row.signature.parameters
    for name in kwargs:
        if name in SPELLINGS and name not in known:
            break
    else:
        return kwargs
    names = names_of(row)
    own: dict[str, Any] = {}
    for name, value in kwargs.items():
        key = names.get(name, name)
        if key == "axis" and row.name in EMPTY_IS_EVERY_AXIS and name != key:
            value = every_axis_if_empty(value)
        if key in own or (key != name and key in kwargs):
            raise TypeError(f"{row.name}: {name} is another name of {key}; give one of them")
        own[key] = value
    return own


def with_every_axis(at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns positional arguments with None in place of empty axes at ``at``."""
    if at < len(args) and every_axis_if_empty(args[at]) is None:
        return (*args[:at], None, *args[at + 1 :])
    return args


def make_row(
    function: Callable[..., Any], kind: str, *, name: str = "", text: str | None = None, **fields: Any
) -> OpRow:
    """Returns the row of ``function``: parameters annotated with Expr or Tensor are operands, all others attributes."""
    parameters = dict(inspect.signature(function).parameters)
    wants_space = parameters.pop("space", None) is not None
    operands = tuple(
        key for key, p in parameters.items() if "Expr" in str(p.annotation) or "Tensor" in str(p.annotation)
    )
    body: dict[str, Any] = {kind: text if text is not None else function}
    return OpRow(
        name=name or function.__name__,
        signature=inspect.Signature(list(parameters.values())),
        doc=inspect.getdoc(function) or "",
        operands=operands,
        attributes={key: p.default for key, p in parameters.items() if key not in operands},
        wants_space=wants_space,
        leading=operands == tuple(parameters)[: len(operands)],
        open=any(p.kind is p.VAR_POSITIONAL and key in operands for key, p in parameters.items()),
        **body,
        **fields,
    )


def register_op(row: OpRow) -> OpRow:
    """Adds a row to the table; raises ValueError if the name is taken."""
    if row.name in TABLE:
        raise ValueError(f"the op {row.name!r} exists already")
    TABLE[row.name] = row
    return row


def row_of(name: str) -> OpRow:
    """Returns the row of the op ``name``; raises UnsupportedError if there is none."""
    if name not in TABLE:
        # The rows are written in netcl.ops, which imports this module; a tensor's first operator brings them in.
        importlib.import_module("netcl.ops")
    if name not in TABLE:
        raise UnsupportedError(f"there is no op {name!r}", op=name)
    return TABLE[name]
