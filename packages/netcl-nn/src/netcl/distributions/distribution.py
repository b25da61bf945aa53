"""Distribution: the base class, with shapes of batches and events, and parameters from numbers or tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import from_here
from netcl.core.layout import broadcast_shapes
from netcl.distributions.constraints import Constraint, is_dependent

if TYPE_CHECKING:
    from typing_extensions import Self

Shape = Sequence[int]


class Distribution:
    """A probability distribution of events of ``event_shape``, for each element of ``batch_shape``.

    Parameters are tensors or numbers and broadcast. ``validate_args=True`` checks parameters and values on the host and
    raises ValueError; by default only numbers are checked, so that nothing is read from the device.
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    # The regions of the parameters, by name.
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    region: ClassVar[Constraint | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__module__.startswith("netcl."):
            cls.__init__ = from_here(vars(cls)["__init__"])  # type: ignore[method-assign]

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        self._validate_args = bool(validate_args)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one event."""
        return self._event_shape

    @property
    def support(self) -> Constraint:
        """The region of the events."""
        if self.region is None:
            raise TypeError(f"{type(self).__name__} has no support")
        return self.region

    def expand(self, batch_shape: Shape) -> Self:
        """Returns this distribution with parameters broadcast to ``batch_shape``; their values stay the same."""
        old, new = self._batch_shape, tuple(batch_shape)
        if tuple(broadcast_shapes([old, new])) != new:
            raise ValueError(f"expand: batch shape {old} does not broadcast to {new}")
        result = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            shape = value.shape if isinstance(value, Tensor) else getattr(value, "batch_shape", None)
            follows = isinstance(value, (Tensor, Distribution)) and shape is not None and shape[: len(old)] == old
            wide = (*new, *shape[len(old) :]) if follows and shape is not None else ()
            if follows and isinstance(value, Tensor):
                value = ag.expand(value, wide)
            elif follows:
                value = value.expand(wide)
            result.__dict__[name] = value
        result._batch_shape = new
        return result

    def _begin(self, validate_args: bool | None, **parameters: Any) -> None:
        """Checks parameters and stores them as tensors of one shape, the shape of the batch of single numbers."""
        check_all(type(self), validate_args, **parameters)
        tensors = broadcast(*parameters.values())
        vars(self).update(zip(parameters, tensors))
        Distribution.__init__(self, tensors[0].shape, (), validate_args)

    def _over_batch(self, events: Tensor, expand: bool) -> Tensor:
        """Returns events (K, *event_shape) with an axis for each axis of the batch, over the batch if ``expand``."""
        count, *event = events.shape
        events = ag.reshape(events, (count, *(1,) * len(self._batch_shape), *event))
        return ag.expand(events, (count, *self._batch_shape, *event)) if expand else events

    def _check_value(self, value: Tensor) -> None:
        """Raises ValueError for a value outside of the support, with ``validate_args=True``."""
        if self._validate_args and not bool(self.support.check(value).to_host().all()):
            raise ValueError(
                f"values of {type(self).__name__} must be {self.support.described}; the tensor has other values"
            )

    def _extended(self, sample_shape: Shape) -> tuple[int, ...]:
        return (*tuple(sample_shape), *self._batch_shape, *self._event_shape)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns samples of shape sample_shape + batch_shape + event_shape, without a gradient."""
        with ag.no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns samples as functions of the parameters, so that gradients flow to them."""
        raise TypeError(f"{type(self).__name__} has no rsample; write sample() and a gradient by log_prob()")

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the logarithm of the density or probability at ``value``."""
        raise TypeError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Returns the probability of at most ``value``."""
        raise TypeError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Returns the quantile."""
        raise TypeError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Returns all events of a finite support along a new first axis, over the batch if ``expand``."""
        raise TypeError(f"{type(self).__name__} has no finite support")

    def entropy(self) -> Tensor:
        """Returns the entropy, of batch_shape."""
        raise TypeError(f"{type(self).__name__} has no entropy in closed form")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise TypeError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The event of the largest density or probability."""
        raise TypeError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise TypeError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return ag.sqrt(self.variance)

    def perplexity(self) -> Tensor:
        """Returns the exponential of the entropy."""
        return ag.exp(self.entropy())

    def __repr__(self) -> str:
        parameters = {name: vars(self).get(name) for name in getattr(self, "arg_constraints", {})}
        tensors = {name: value for name, value in parameters.items() if isinstance(value, Tensor)}
        if not tensors:
            return f"{type(self).__name__}(batch_shape={self._batch_shape}, event_shape={self._event_shape})"
        shown = (
            f"{name}: {value.shape if value.size != 1 else value if value.ndim else value.item()}"
            for name, value in tensors.items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def broadcast(*values: Any) -> list[Tensor]:
    """Returns numbers and tensors as tensors of one shape, on the device and in the dtype of the tensors."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    queue = tensors[0].queue if tensors else None
    dtype = tensors[0].dtype if tensors else "float32"
    operands = [v if isinstance(v, Tensor) else Tensor.full((), float(v), dtype, queue=queue) for v in values]
    shape = broadcast_shapes([t.shape for t in operands])
    return [t if t.shape == shape else ag.expand(t, shape) for t in operands]


def check_all(distribution: type[Distribution], validate_args: bool | None, **parameters: Any) -> None:
    """Raises ValueError for parameters outside of the class's ``arg_constraints``: numbers, and tensors if
    ``validate_args``. None, and a parameter that depends on others, is not checked.
    """
    for name, value in parameters.items():
        region, on_device = distribution.arg_constraints.get(name), isinstance(value, Tensor)
        if value is None or region is None or is_dependent(region) or on_device and not validate_args:
            continue
        tested = value if on_device else Tensor.from_host([float(value)], backend="cpu")
        if not bool(region.check(tested).to_host().all()):
            said = f"; the tensor of shape {value.shape} has other values" if on_device else f", got {value}"
            raise ValueError(f"{name} must be {region.described}{said}")


def exponential(shape: Shape, like: Tensor) -> Tensor:
    """Returns exponential numbers with the mean 1, above 0."""
    empty: Any = Tensor.empty(tuple(shape), like.dtype, queue=like.queue)
    drawn: Tensor = empty.exponential_()
    return drawn


def normal_numbers(shape: Shape, like: Tensor) -> Tensor:
    """Returns numbers of the standard normal distribution."""
    return ag.cast(ag.randn(tuple(shape), queue=like.queue), dtype=like.dtype)


def open_uniform(shape: Shape, like: Tensor) -> Tensor:
    """Returns uniform numbers in (0, 1), without the ends, so that their logarithms are finite."""
    drawn = ag.cast(ag.rand(tuple(shape), queue=like.queue), dtype=like.dtype)
    return ag.maximum(ag.minimum(drawn, 1.0 - 2.0**-24), 2.0**-25)
