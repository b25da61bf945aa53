"""Constraints: regions of numbers and arrays, as the supports of distributions and of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor

_TOLERANCE = 1e-6


class Constraint:
    """A region. ``check(value)`` is a bool for each event of ``event_dim`` axes; ``is_discrete`` regions are countable.

    ``described`` completes the sentence "the parameter must be ...".
    """

    def __init__(
        self, described: str, holds: Callable[[Tensor], Tensor], is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        self.described: str = described
        self.is_discrete: bool = is_discrete
        self.event_dim: int = event_dim
        self._holds = holds

    def check(self, value: Tensor) -> Tensor:
        """Returns True where ``value`` is in the region, False for NaN."""
        return self._holds(value)

    def __repr__(self) -> str:
        return f"Constraint({self.described})"


class _Dependent(Constraint):
    """The region of a parameter that depends on other parameters; it cannot be checked by itself."""

    def __init__(self, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__("in a region that depends on other parameters", self._unknown, is_discrete, event_dim)

    def _unknown(self, value: Tensor) -> Tensor:
        raise ValueError("a dependent constraint has no region for the class: read it from an object")

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        """Returns another dependent constraint, with these properties."""
        return _Dependent(is_discrete, event_dim)


class dependent_property(property):
    """A property with a constraint that depends on the parameters of the object; usable as a decorator with and without
    arguments.
    """

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        super().__init__(fn)
        self.is_discrete: bool = is_discrete
        self.event_dim: int = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:
        """Returns the property of ``fn``, with the properties of this object."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Returns True for a constraint that depends on other parameters."""
    return isinstance(constraint, (_Dependent, dependent_property))


def _all_last(holds: Tensor, count: int = 1) -> Tensor:
    return ag.all(holds, axis=tuple(range(-count, 0))) if count else holds


def _whole(value: Tensor) -> Tensor:
    return ag.eq(ag.floor(value), value) if value.dtype.startswith(("float", "bfloat")) else ag.eq(value, value)


def _and(*conditions: Tensor) -> Tensor:
    result = conditions[0]
    for condition in conditions[1:]:
        result = ag.logical_and(result, condition)
    return result


def greater_than(lower_bound: Any) -> Constraint:
    """Returns the region of numbers above a bound."""
    return Constraint(f"above {lower_bound}", lambda x: x > lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Returns the region of numbers from a bound on."""
    return Constraint(f"at least {lower_bound}", lambda x: x >= lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Returns the region of numbers below a bound."""
    return Constraint(f"below {upper_bound}", lambda x: x < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Returns the region of numbers between two bounds, which belong to it."""
    return Constraint(f"in [{lower_bound}, {upper_bound}]", lambda x: _and(x >= lower_bound, x <= upper_bound))


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Returns the region of numbers from a bound to below another."""
    return Constraint(f"in [{lower_bound}, {upper_bound})", lambda x: _and(x >= lower_bound, x < upper_bound))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Returns the region of whole numbers between two bounds, which belong to it."""
    return Constraint(
        f"a whole number in [{lower_bound}, {upper_bound}]",
        lambda x: _and(_whole(x), x >= lower_bound, x <= upper_bound),
        True,
    )


def multinomial(upper_bound: Any) -> Constraint:
    """Returns the region of vectors of numbers at least 0 with the sum ``upper_bound``: counts, and shares of counts as
    in PyTorch.
    """
    return Constraint(
        f"counts with the sum {upper_bound}",
        lambda x: _and(_all_last(x >= 0), ag.eq(ag.sum(x, axis=-1), upper_bound)),
        True,
        1,
    )


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Returns ``base_constraint`` for all elements of the last axes."""
    count = reinterpreted_batch_ndims
    return Constraint(
        base_constraint.described,
        lambda x: _all_last(base_constraint.check(x), count),
        base_constraint.is_discrete,
        base_constraint.event_dim + count,
    )


def _on_simplex(x: Tensor) -> Tensor:
    return _and(_all_last(x >= 0), ag.abs(ag.sum(x, axis=-1) - 1.0) < _TOLERANCE)


def _one_hot(x: Tensor) -> Tensor:
    return _and(_all_last(ag.logical_or(ag.eq(x, 0), ag.eq(x, 1))), ag.eq(ag.sum(x, axis=-1), 1))


def transposed(x: Tensor) -> Tensor:
    """Returns the matrices with rows and columns exchanged."""
    return ag.permute(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _square(x: Tensor) -> Tensor:
    fits = x.ndim >= 2 and x.shape[-1] == x.shape[-2]
    return Tensor.full(x.shape[:-2], float(fits), "bool", queue=x.queue)


def _symmetric(x: Tensor) -> Tensor:
    if x.shape[-1] != x.shape[-2]:
        return _square(x)
    return _all_last(ag.isclose(x, transposed(x), atol=1e-6), 2)


def _lower(x: Tensor) -> Tensor:
    return _all_last(ag.eq(ag.tril(x), x), 2)


def _lower_cholesky(x: Tensor) -> Tensor:
    return _and(_lower(x), _all_last(ag.diagonal(x, 0, -2, -1) > 0))


def _definite(strictly: bool) -> Callable[[Tensor], Tensor]:
    def holds(x: Tensor) -> Tensor:
        if x.shape[-1] != x.shape[-2]:
            return _square(x)
        values = ag.linalg_eigvalsh(x)
        return _and(_symmetric(x), _all_last(values > 0 if strictly else values >= -_TOLERANCE))

    return holds


dependent: _Dependent = _Dependent()
boolean: Constraint = Constraint("0 or 1", lambda x: ag.logical_or(ag.eq(x, 0), ag.eq(x, 1)), True)
one_hot: Constraint = Constraint("one-hot", _one_hot, True, 1)
nonnegative_integer: Constraint = Constraint("a whole number at least 0", lambda x: _and(_whole(x), x >= 0), True)
positive_integer: Constraint = Constraint("a whole number above 0", lambda x: _and(_whole(x), x >= 1), True)
real: Constraint = Constraint("a number", lambda x: ag.eq(x, x))
real_vector: Constraint = Constraint("numbers", lambda x: _all_last(ag.eq(x, x)), False, 1)
positive: Constraint = Constraint("above 0", lambda x: x > 0)
nonnegative: Constraint = Constraint("at least 0", lambda x: x >= 0)
unit_interval: Constraint = interval(0, 1)
simplex: Constraint = Constraint("at least 0 with the sum 1", _on_simplex, False, 1)
lower_triangular: Constraint = Constraint("a lower triangular matrix", _lower, False, 2)
lower_cholesky: Constraint = Constraint("a lower triangular matrix with a diagonal above 0", _lower_cholesky, False, 2)
square: Constraint = Constraint("a square matrix", _square, False, 2)
symmetric: Constraint = Constraint("a symmetric matrix", _symmetric, False, 2)
positive_semidefinite: Constraint = Constraint("a positive semidefinite matrix", _definite(False), False, 2)
positive_definite: Constraint = Constraint("a positive definite matrix", _definite(True), False, 2)
