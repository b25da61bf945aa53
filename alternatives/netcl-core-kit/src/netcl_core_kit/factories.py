"""Functions of the front that make tensors, by PyTorch's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl_core_kit.device import manager
from netcl_core_kit.dispatch import _core, call
from netcl_core_kit.dtypes import canonical, get_default_dtype
from netcl_core_kit.engines import engine_for, is_queue
from netcl_core_kit.generator import drawing_from
from netcl_core_kit.layout import broadcast_shapes

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "bernoulli",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "is_tensor",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "scalar_tensor",
    "tensor",
    "zeros",
    "zeros_like",
]


def _queue(device: Any) -> Any:
    if device is None:
        return None
    return device if is_queue(device) else manager.default(device)


def _shape(sizes: Any) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else tuple(sizes)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A new tensor of ``data``, of the dtype that an array has."""
    if dtype is None and isinstance(data, (np.ndarray, np.generic)):
        dtype = str(data.dtype)
    return _core.tensor.from_host(engine_for(_queue(device)).queue, data, dtype, requires_grad=requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """``data`` itself if it is such a tensor, else a new one."""
    if isinstance(data, _core.tensor):
        return data.to(*(one for one in (_queue(device), dtype) if one is not None))
    return tensor(data, dtype=dtype, device=device)


asarray = as_tensor
scalar_tensor = tensor


def from_numpy(array: Any) -> Any:
    """A tensor of an array, of its dtype."""
    return tensor(array, dtype=str(array.dtype))


def is_tensor(value: Any) -> bool:
    """True for tensors."""
    return isinstance(value, _core.tensor)


def _filled(value: Any) -> Any:
    def make(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        kind_of = dtype or get_default_dtype()
        return _core.tensor.full(_shape(size), value, kind_of, queue=_queue(device), requires_grad=requires_grad)

    return make


def _like(value: Any) -> Any:
    def make(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        queue = _queue(device) or input.queue
        return _core.tensor.full(input.shape, value, dtype or input.dtype, queue=queue, requires_grad=requires_grad)

    return make


empty, zeros, ones = _filled(0), _filled(0), _filled(1)
empty_like, zeros_like, ones_like = _like(0), _like(0), _like(1)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ``size`` whose elements are all ``fill_value``."""
    kind_of = dtype or canonical(type(fill_value))
    return _core.tensor.full(size, fill_value, kind_of, queue=_queue(device), requires_grad=requires_grad)


def full_like(input: Any, fill_value: Any, **place: Any) -> Any:
    """``full`` in the shape, dtype and device of ``input``."""
    return _like(fill_value)(input, **place)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Numbers from ``start`` (0 when only an end is given) to before ``end``."""
    return _core.tensor.arange(start, end, step, dtype, queue=_queue(device), requires_grad=requires_grad)


def eye(n: int, m: Any = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """The (n, m) matrix with ones on its diagonal."""
    return _core.tensor.eye(n, m, dtype or get_default_dtype(), queue=_queue(device), requires_grad=requires_grad)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """``steps`` numbers of equal distance from ``start`` to ``end``."""
    return tensor(np.linspace(start, end, steps), dtype=dtype, device=device, requires_grad=requires_grad)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **place: Any) -> Any:
    """``base`` to the powers of ``linspace``."""
    return tensor(np.logspace(start, end, steps, base=base), **place)


def _drawn(name: str) -> Any:
    def make(
        *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        with drawing_from(generator):
            made = call(name, _shape(size), dtype=dtype or get_default_dtype(), queue=engine_for(_queue(device)).queue)
        if requires_grad:
            made.requires_grad = True
        return made

    return make


rand, randn = _drawn("rand"), _drawn("randn")


def rand_like(input: Any, **place: Any) -> Any:
    """``rand`` in the shape, dtype and device of ``input``."""
    return rand(input.shape, **{"dtype": input.dtype, "device": input.queue, **place})


def randn_like(input: Any, **place: Any) -> Any:
    """``randn`` in the shape, dtype and device of ``input``."""
    return randn(input.shape, **{"dtype": input.dtype, "device": input.queue, **place})


def randint(
    low: int, high: Any, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None
) -> Any:
    """Integers in [low, high), or [0, low) for two arguments."""
    if size is None:
        low, high, size = 0, low, high
    with drawing_from(generator):
        return call("randint", low, high, tuple(size), dtype=dtype or "int64", queue=engine_for(_queue(device)).queue)


def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
    """A random order of 0 .. n - 1."""
    with drawing_from(generator):
        return call("randperm", n, dtype or "int64", engine_for(_queue(device)).queue)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, device: Any = None) -> Any:
    """Normal numbers of a mean and a deviation, numbers or tensors."""
    shape = size if size is not None else broadcast_shapes([getattr(one, "shape", ()) for one in (mean, std)])
    return mean + std * randn(tuple(shape), generator=generator, device=device)


def bernoulli(input: Any, *, generator: Any = None) -> Any:
    """1 with the probability that an element of ``input`` has, else 0."""
    with drawing_from(generator):
        return call("bernoulli", input)
