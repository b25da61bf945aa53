"""Initializers: each fills a tensor in place from the generator that ``manual_seed`` seeds, and returns it.

Every name also exists with PyTorch's trailing underscore, and then has PyTorch's defaults; ``normal`` and
``kaiming_uniform`` have their own. ``generator=`` gives the numbers of an ``nc.Generator``.
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError, from_here
from netcl.core.process.user_frame import level_outside
from netcl.core.tensor.generator import Generator

_MOSTLY_INSIDE = 0.3  # of a normal distribution: from here on drawing again takes less than the uniform envelope

F = TypeVar("F", bound=Callable[..., Any])


class _Thread(threading.local):
    skipping: bool = False


_thread = _Thread()


@contextmanager
def skipped() -> Iterator[None]:
    """Makes initializers inside the block leave tensors undefined and draw no numbers, before a state is loaded."""
    outer, _thread.skipping = _thread.skipping, True
    try:
        yield
    finally:
        _thread.skipping = outer


def _initialiser(function: F) -> F:
    """Makes ``function(tensor, ...)`` respect ``skipped``, record no gradient and return the tensor.

    On the device "meta" there are no elements to fill: the work ends at the first read of one.
    """

    @functools.wraps(function)
    def fill(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not _thread.skipping:
            try:
                with ag.no_grad():
                    function(tensor, *args, **kwargs)
            except NotImplementedError as error:
                if type(error).__name__ != "NoDataError":  # a name that not every core has
                    raise
        return tensor

    return cast(F, fill)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Returns the gain of a nonlinearity by PyTorch's table."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    plain = (
        "linear",
        "sigmoid",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
    )
    if nonlinearity not in gains and nonlinearity not in plain:
        raise ValueError(f"no gain is known for {nonlinearity!r}; known are leaky_relu, {', '.join((*gains, *plain))}")
    return gains.get(nonlinearity, 1.0)


def fans(tensor: Tensor) -> tuple[int, int]:
    """Returns (fan_in, fan_out) of a weight (out, in, kernel...); raises ShapeError below two dimensions."""
    if tensor.ndim < 2:
        raise ShapeError(f"fan in and out: expected a weight of two dimensions or more, got {tensor.shape}")
    taps = math.prod(tensor.shape[2:])
    return tensor.shape[1] * taps, tensor.shape[0] * taps


@_initialiser
def uniform(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Any:
    """Fills with uniform numbers in [a, b)."""
    tensor.uniform_(a, b, generator=generator)


@_initialiser
def normal(tensor: Tensor, mean: float = 0.0, std: float = 0.02, generator: Generator | None = None) -> Any:
    """Fills with normal numbers of ``mean`` and ``std``."""
    tensor.normal_(mean, std, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with normal numbers of ``mean`` and ``std``: ``normal`` with PyTorch's default."""
    return normal(tensor, mean, std, generator=generator)  # type: ignore[no-any-return]


@_initialiser
def trunc_normal(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Any:
    """Fills with normal numbers of ``mean`` and ``std``; values outside of [a, b] are drawn again.

    If [a, b] holds less than 0.3 of the distribution, uniform numbers in [a, b] are accepted with the density relative
    to its largest (rejection sampling), so an interval in a tail ends too; a mean far outside of [a, b] warns.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            f"trunc_normal: the mean {mean} is more than two std {std} outside of [{a}, {b}]",
            stacklevel=level_outside(),
        )
    made: Any = Tensor.empty(tensor.shape, tensor.dtype, queue=tensor.queue)

    def drawn(name: str, *limits: float) -> Any:
        return getattr(made, name)(*limits, generator=generator).to_host()

    inside = math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2))
    if inside > 2 * _MOSTLY_INSIDE:
        values = drawn("normal_", mean, std)
        while ((values < a) | (values > b)).any():
            values = np.where((values < a) | (values > b), drawn("normal_", mean, std), values)
    else:
        values, pending = np.zeros(tensor.shape), np.ones(tensor.shape, bool)
        peak = (max(a, min(mean, b)) - mean) / std
        while pending.any():
            tried = drawn("uniform_", a, b)
            values = np.where(pending, tried, values)
            with np.errstate(divide="ignore"):
                pending &= np.log(drawn("uniform_", 0.0, 1.0)) > (peak**2 - ((tried - mean) / std) ** 2) / 2
    tensor.write(values)


@_initialiser
def constant(tensor: Tensor, value: float) -> Any:
    """Fills with ``value``."""
    tensor.write(Tensor.full(tensor.shape, value, tensor.dtype, queue=tensor.queue))


def zeros(tensor: Tensor) -> Tensor:
    """Fills with zeros."""
    return constant(tensor, 0.0)  # type: ignore[no-any-return]


def ones(tensor: Tensor) -> Tensor:
    """Returns one everywhere."""
    return constant(tensor, 1.0)  # type: ignore[no-any-return]


@_initialiser
def eye(tensor: Tensor) -> Any:
    """Returns the identity matrix; raises ShapeError unless the tensor has two dimensions."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye: expected a matrix, got a tensor of shape {tensor.shape}")
    tensor.write(np.eye(tensor.shape[0], tensor.shape[1]))


@_initialiser
def orthogonal(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Any:
    """Fills with orthonormal rows or columns of the tensor as matrix (out, rest), times ``gain`` (Saxe et al. 2013)."""
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal: expected two dimensions or more, got {tensor.shape}")
    rows = tensor.shape[0]
    columns = tensor.size // rows if rows else 0
    if tensor.size == 0:
        return
    drawn: Any = Tensor.empty((rows, columns), queue=tensor.queue)
    matrix = drawn.normal_(generator=generator).to_host().astype(np.float64)
    q, r = np.linalg.qr(matrix if rows >= columns else matrix.T)
    # The QR decomposition is unique up to signs; the signs of r's diagonal make the distribution uniform.
    q = q * np.sign(np.diag(r))
    tensor.write((gain * (q if rows >= columns else q.T)).reshape(tensor.shape))


@_initialiser
def dirac(tensor: Tensor, groups: int = 1) -> Any:
    """Returns the identity of a convolution with an odd kernel: in each of ``groups`` parts of the weight (out, in,
    kernel...) output channel i is input channel i, further channels are zero.

    Raises ShapeError for other tensors than weights of one to three spatial axes, ValueError unless ``groups`` divides
    their first axis.
    """
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac: expected a weight (out, in, kernel...) of 3 to 5 dimensions, got {tensor.shape}")
    if groups < 1 or tensor.shape[0] % groups:
        raise ValueError(f"dirac: groups={groups} does not divide {tensor.shape[0]} output channels")
    part = tensor.shape[0] // groups
    same = np.arange(min(part, tensor.shape[1]))
    values = np.zeros((groups, part, *tensor.shape[1:]))
    at: Any = (slice(None), same, same, *(size // 2 for size in tensor.shape[2:]))
    values[at] = 1
    tensor.write(values.reshape(tensor.shape))


@_initialiser
def sparse(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Any:
    """Fills with normal numbers of ``std``, and in each column of a matrix the fraction ``sparsity``, rounded up, zero
    at random rows (Martens 2010). Raises ShapeError unless the tensor has two dimensions.
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse: expected a matrix, got a tensor of shape {tensor.shape}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    values = tensor.to_host()
    for column in range(columns):
        # As in PyTorch, the rows are drawn from the default generator, even if another one is given.
        values[ag.randperm(rows, queue=tensor.queue).to_host()[:zeros], column] = 0
    tensor.write(values)


def xavier_uniform(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with uniform numbers in +-gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / max(1, sum(fans(tensor))))
    return uniform(tensor, -bound, bound, generator=generator)  # type: ignore[no-any-return]


def xavier_normal(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with normal numbers of std gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    std = gain * math.sqrt(2.0 / max(1, sum(fans(tensor))))
    return normal(tensor, 0.0, std, generator=generator)  # type: ignore[no-any-return]


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode: expected 'fan_in' or 'fan_out', got {mode!r}")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(1, fan))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills with uniform numbers in +-sqrt(3) gain / sqrt(fan) (He et al. 2015)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform(tensor, -bound, bound, generator=generator)  # type: ignore[no-any-return]


def kaiming_uniform(
    tensor: Tensor,
    a: float = math.sqrt(5),
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Calls ``kaiming_uniform_`` with the default a = sqrt(5), which gives +-1/sqrt(fan_in) as in PyTorch's layers."""
    return kaiming_uniform_(tensor, a, mode, nonlinearity, generator)


def kaiming_normal(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills with normal numbers of std gain / sqrt(fan) (He et al. 2015)."""
    return normal(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator=generator)  # type: ignore[no-any-return]


def uniform_around_zero_(tensor: Tensor | None, bound: float) -> None:
    """Fills with uniform numbers in [-bound, bound); does nothing for None."""
    if tensor is not None:
        uniform(tensor, -bound, bound)


uniform_ = uniform
trunc_normal_ = trunc_normal


def constant_(tensor: Any, val: float) -> Any:
    """Returns every element ``val``; PyTorch's name of ``constant``."""
    return constant(tensor, val)


zeros_ = zeros
ones_ = ones
eye_ = eye
orthogonal_ = orthogonal
dirac_ = dirac
sparse_ = sparse
xavier_uniform_ = xavier_uniform
xavier_normal_ = xavier_normal
kaiming_normal_ = kaiming_normal


from_here(globals())


def __dir__() -> list[str]:
    """Returns the functions, for completion."""
    return sorted(n for n, v in globals().items() if n[0].islower() and getattr(v, "__module__", "") == __name__)
