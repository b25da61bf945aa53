"""Decorators that make a row of the op table and the function that calls it."""

import inspect

from netcl.core.layout import normalize_axes
from netcl.core.ops_table.dispatch import Domain, OpRow, call_row, register_op
from netcl.ops.signatures import Signed


class OpFunction:
    """A function of the op table; ``row`` is its row."""

    def __init__(self, row, record):
        self.row, self.record, self.__name__, self.__doc__ = row, record, row.name, row.doc
        self.__wrapped__ = Signed(row)

    def __call__(self, *args, **kwargs):
        return call_row(self.row, args, kwargs, self.record)


def as_function(row, record):
    """The function that calls a row: recorded, not recorded, or as the op around it (None)."""
    return OpFunction(row, record)


def _row(function, way, domain, amp, name, doc, dtypes="any"):
    signature, name = inspect.signature(function), name or function.__name__.rstrip("_")
    marked = [one for one in signature.parameters.values() if "Tensor" in str(one.annotation)]
    rest = {key: one.default for key, one in signature.parameters.items() if one not in marked}
    operands = tuple(one.name for one in marked)
    how = {"amp": amp, "dtypes": dtypes, "domain": domain or Domain(), way: function}
    return as_function(register_op(OpRow(name, signature, doc or function.__doc__, operands, rest, **how)), None)


def computed(*, domain=None, amp="widest", name="", doc="", dtypes="any", forms=""):
    """Decorates a function that computes."""
    return lambda function: _row(function, "call", domain, amp, name, doc, dtypes)


def composite(*, domain=None, amp="widest", name="", doc="", forms=""):
    """Decorates a function over other ops."""
    return lambda function: _row(function, "composite", domain, amp, name, doc)


def reduced(shape, operands, attributes):
    """The shape of a reduction."""
    axes = normalize_axes(attributes.get("axis"), len(shape), "reduction")
    kept = bool(attributes.get("keepdims"))
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if kept or axis not in axes)


def scalar(shape, operands, attributes):
    """The shape of a reduction over all axes."""
    return ()
