"""Transforms of random numbers: invertible functions with the logarithm of their derivative or determinant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.layout import broadcast_shapes
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint

_TINY = 1.1754944e-38


def summed(value: Tensor, count: int) -> Tensor:
    """Returns the sums over the last ``count`` axes."""
    return ag.sum(value, axis=tuple(range(-count, 0))) if count > 0 else value


class Transform:
    """A function from ``domain`` to ``codomain``. ``bijective``: it has an inverse, and a ``log_abs_det_jacobian``.

    ``sign`` is 1 or -1 for a rising or falling function of numbers. ``cache_size=1`` keeps the last pair of argument
    and result, so that the inverse of a result is the argument itself.
    """

    bijective: bool = False
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size}")
        self._cache_size: int = cache_size
        self._last: tuple[Tensor, Tensor] | None = None

    @property
    def sign(self) -> Any:
        """1 for a rising function, -1 for a falling one; raises UnsupportedError if it is neither."""
        raise UnsupportedError(f"{type(self).__name__} has no sign: it neither rises nor falls everywhere")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Returns this transform with another ``cache_size``."""
        if self._cache_size == cache_size:
            return self
        copy: Transform = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__, _cache_size=cache_size, _last=None)
        return copy

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the function of ``x``."""
        if self._last is not None and self._last[0] is x:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._last is not None and self._last[1] is y:
            return self._last[0]
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise UnsupportedError(f"{type(self).__name__} defines no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise UnsupportedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Returns the logarithm of |dy / dx|, of the determinant for transforms of vectors, at y = self(x)."""
        raise UnsupportedError(f"{type(self).__name__} has no log_abs_det_jacobian: it has no inverse")

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the result for an argument of ``shape``."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the argument for a result of ``shape``."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Parameterless(Transform):
    """A transform that equals all others of its class."""

    bijective: bool = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class _Rising(_Parameterless):
    @property
    def sign(self) -> Any:
        return 1


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv: Transform = transform
        self.bijective: bool = transform.bijective
        self.domain: Constraint = transform.codomain
        self.codomain: Constraint = transform.domain

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self._inv!r}.inv"


class ExpTransform(_Rising):
    """y = exp(x)."""

    codomain: Constraint = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return ag.exp(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ag.log(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Rising):
    """y = 1 / (1 + exp(-x)); the inverse is finite at 0 and 1."""

    codomain: Constraint = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return ag.minimum(ag.maximum(ag.sigmoid(x), _TINY), 1.0 - 2.0**-24)

    def _inverse(self, y: Tensor) -> Tensor:
        inside = ag.minimum(ag.maximum(y, _TINY), 1.0 - 2.0**-24)
        return ag.log(inside) - ag.log1p(-inside)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -(ag.softplus(x) + ag.softplus(-x))


class TanhTransform(_Rising):
    """y = tanh(x)."""

    codomain: Constraint = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return ag.tanh(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ag.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)^2 = 4 e^(-2x) / (1 + e^(-2x))^2
        return (math.log(2.0) - (x + ag.softplus(x * -2.0))) * 2.0


class SoftplusTransform(_Rising):
    """y = log(1 + exp(x))."""

    codomain: Constraint = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return ag.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ag.log(-ag.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -ag.softplus(-x)


class PowerTransform(Transform):
    """y = x to the power ``exponent``, of numbers above 0."""

    bijective: bool = True
    domain: Constraint = constraints.positive
    codomain: Constraint = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent: Any = exponent

    @property
    def sign(self) -> Any:
        return ag.sign(self.exponent) if isinstance(self.exponent, Tensor) else math.copysign(1, self.exponent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    def __hash__(self) -> int:
        return hash(type(self))

    def _call(self, x: Tensor) -> Tensor:
        return ag.pow(x, self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return ag.pow(y, 1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return ag.log(ag.abs(y * self.exponent / x))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape


def _equal(a: Any, b: Any) -> bool:
    """True for equal numbers and for the same tensor: the values of tensors are not read from the device."""
    return a is b or not isinstance(a, Tensor) and not isinstance(b, Tensor) and bool(a == b)


def _broadcast(shape: Sequence[int], *values: Any) -> tuple[int, ...]:
    return tuple(broadcast_shapes([tuple(shape), *(v.shape for v in values if isinstance(v, Tensor))]))


class AffineTransform(Transform):
    """y = loc + scale x, on events of ``event_dim`` axes."""

    bijective: bool = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc: Any = loc
        self.scale: Any = scale
        self.event_dim: int = event_dim
        self.domain: Constraint = constraints.independent(constraints.real, event_dim)
        self.codomain: Constraint = self.domain

    @property
    def sign(self) -> Any:
        return ag.sign(self.scale) if isinstance(self.scale, Tensor) else math.copysign(1, self.scale)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _equal(self.loc, other.loc)
            and _equal(self.scale, other.scale)
            and self.event_dim == other.event_dim
        )

    def __hash__(self) -> int:
        return hash(type(self))

    def _call(self, x: Tensor) -> Tensor:
        return ag.add(self.loc, x * self.scale)

    def _inverse(self, y: Tensor) -> Tensor:
        return ag.div(y - self.loc, self.scale)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            logarithm = ag.log(ag.abs(self.scale))
            whole = logarithm if logarithm.shape == x.shape else x.detach() * 0.0 + logarithm
        else:
            whole = Tensor.full(x.shape, math.log(abs(self.scale)), x.dtype, queue=x.queue)
        return summed(whole, self.event_dim)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape


class AbsTransform(_Parameterless):
    """y = |x|; the inverse takes the nonnegative one of both."""

    bijective: bool = False
    codomain: Constraint = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return ag.abs(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(_Parameterless):
    """y = softmax(x) along the last axis; the inverse is a logarithm, up to a constant."""

    bijective: bool = False
    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return ag.softmax(x, axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return ag.log(y)


class StickBreakingTransform(_Parameterless):
    """Maps n numbers to n + 1 with the sum 1: each result is a share, by a sigmoid, of the remainder after the earlier
    ones.
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def _offsets(self, count: int, like: Tensor) -> Tensor:
        """Returns log(n), ..., log(1): with these x = 0 gives equal shares."""
        values = [math.log(count - i) for i in range(count)]
        offsets: Tensor = Tensor.from_host(like.queue, values, like.dtype)
        return offsets

    def _call(self, x: Tensor) -> Tensor:
        z = ag.sigmoid(x - self._offsets(x.shape[-1], x))
        left = ag.cumprod(1.0 - z, -1)
        ones = Tensor.full((*x.shape[:-1], 1), 1.0, x.dtype, queue=x.queue)
        return ag.cat([z, ones], -1) * ag.cat([ones, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = ag.narrow(y, -1, 0, y.shape[-1] - 1)
        left = ag.maximum(1.0 - ag.cumsum(shares, -1), _TINY)
        return ag.log(shares) - ag.log(left) + self._offsets(shares.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # Triangular: dy_k / dx_k = y_k (1 - z_k).
        shifted = x - self._offsets(x.shape[-1], x)
        return ag.sum(ag.log(ag.narrow(y, -1, 0, x.shape[-1])) - ag.softplus(shifted), axis=-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)


class IndependentTransform(Transform):
    """``base_transform`` with its last ``reinterpreted_batch_ndims`` axes as axes of the event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims: int = reinterpreted_batch_ndims
        self.bijective: bool = base_transform.bijective
        self.domain: Constraint = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain: Constraint = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)


class ComposeTransform(Transform):
    """The transforms ``parts`` one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts: list[Transform] = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        self.bijective: bool = all(part.bijective for part in parts)
        self.domain: Constraint = _end([(part.domain, part.codomain) for part in self.parts])
        self.codomain: Constraint = _end([(part.codomain, part.domain) for part in self.parts[::-1]])

    @property
    def sign(self) -> Any:
        product: Any = 1
        for part in self.parts:
            product = product * part.sign
        return product

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in self.parts[::-1]])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(type(self))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in self.parts[::-1]:
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        event = self.domain.event_dim
        total: Tensor | None = None
        for number, part in enumerate(self.parts):
            after = y if number + 1 == len(self.parts) else part(x)
            term = summed(part.log_abs_det_jacobian(x, after), event - part.domain.event_dim)
            total = term if total is None else total + term
            event += part.codomain.event_dim - part.domain.event_dim
            x = after
        return x.detach() * 0.0 if total is None else total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in self.parts[::-1]:
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


def _end(sides: Sequence[tuple[Constraint, Constraint]]) -> Constraint:
    """Returns the region at one end of a chain of (near, far) regions, with the most event axes that any part needs."""
    if not sides:
        return constraints.real
    needed = 0
    for near, far in sides[::-1]:
        needed = max(near.event_dim, needed + near.event_dim - far.event_dim)
    first = sides[0][0]
    return constraints.independent(first, needed - first.event_dim) if needed > first.event_dim else first


identity_transform: ComposeTransform = ComposeTransform([])
