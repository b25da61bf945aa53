"""Draws from the generator, and rows that draw."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from netcl.core.backend.registry import engine_for
from netcl.core.dispatch import call
from netcl.core.dtypes import TORCH, canonical
from netcl.core.tensor import Tensor
from netcl.core.tensor.generator import Generator, current, default_generator
from netcl.core.tensor.host_draws import draw_on_host
from netcl.ops.kernels import T, composites
from netcl.ops.table import computed

__all__ = ["get_rng_state", "manual_seed", "set_rng_state", "tell"]


def manual_seed(seed: int) -> Generator:
    """Seeds the generator of this process for all devices, resets its counter, and returns it."""
    return default_generator.manual_seed(seed)


def get_rng_state() -> dict[str, int]:
    """The state of the generator, {"seed", "offset"}."""
    return default_generator.get_state()


def set_rng_state(state: Mapping[str, int]) -> None:
    """Restores a state that ``get_rng_state`` returned."""
    default_generator.set_state(state)


def tell() -> int:
    """The number of counters used so far."""
    return default_generator.offset


def _shape(shape: Any) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = shape[0]
    return tuple(int(one) for one in shape)


def _unit(count: int, place: Any, dtype: str = "float32") -> T:
    """Uniform numbers in [0, 1), in steps that the dtype can hold."""
    bits = {"float16": 11, "bfloat16": 8}.get(dtype, 24)
    return (current().words(count, place) >> (32 - bits)).to(torch.float32) * 2.0**-bits


def _normals(count: int, place: Any) -> T:
    """Standard normal numbers, by Box and Muller."""
    u = _unit(count + count % 2, place).reshape(-1, 2)
    radius = torch.sqrt(-2 * torch.log1p(-u[:, 0]))
    angle = 2 * math.pi * u[:, 1]
    return torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), 1).reshape(-1)[:count]


def _made(values: T, shape: tuple[int, ...], dtype: str, queue: Any) -> Any:
    return engine_for(queue).wrap(values.reshape(shape).to(TORCH[canonical(dtype)]))


def _from_host(dtype: str, queue: Any, kind: str, *arguments: Any) -> Any:
    """A draw with PyTorch's numbers; None if the generator has none."""
    array = draw_on_host(engine_for(queue), kind, *arguments)
    return None if array is None else Tensor.from_host(engine_for(queue).queue, array, dtype)


@computed()
def rand(*shape: Any, dtype: str = "float32", queue: Any = None) -> Any:
    """Uniform numbers in [0, 1) of the given lengths."""
    sizes = _shape(shape)
    if (found := _from_host(dtype, queue, "rand", sizes, dtype)) is not None:
        return found
    return _made(_unit(math.prod(sizes), engine_for(queue).place, canonical(dtype)), sizes, dtype, queue)


@computed()
def randn(*shape: Any, dtype: str = "float32", queue: Any = None) -> Any:
    """Standard normal numbers of the given lengths, by Box and Muller."""
    sizes = _shape(shape)
    if (found := _from_host(dtype, queue, "randn", sizes, dtype)) is not None:
        return found
    return _made(_normals(math.prod(sizes), engine_for(queue).place), sizes, dtype, queue)


@computed()
def uniform(low: float = 0.0, high: float = 1.0, shape: Any = (), dtype: str = "float32", queue: Any = None) -> Any:
    """Uniform numbers in [low, high): low + (high - low) u with the u of ``rand``."""
    sizes = _shape((shape,))
    if (found := _from_host(dtype, queue, "uniform", low, high, sizes, dtype)) is not None:
        return found
    values = low + (high - low) * _unit(math.prod(sizes), engine_for(queue).place, canonical(dtype))
    return _made(values, sizes, dtype, queue)


@computed()
def normal(mean: float = 0.0, std: float = 1.0, shape: Any = (), dtype: str = "float32", queue: Any = None) -> Any:
    """Normal numbers: mean + std z with the z of ``randn``."""
    sizes = _shape((shape,))
    if (found := _from_host(dtype, queue, "normal", mean, std, sizes, dtype)) is not None:
        return found
    return _made(mean + std * _normals(math.prod(sizes), engine_for(queue).place), sizes, dtype, queue)


@computed()
def randint(low: int, high: int | None = None, shape: Any = (), dtype: str = "int64", queue: Any = None) -> Any:
    """Integers in [low, high), or [0, low) if only one is given: low + (word * (high - low)) >> 32."""
    first, last = (0, low) if high is None else (low, high)
    if last <= first:
        raise ValueError(f"randint: [{first}, {last}) is empty")
    sizes, place = _shape((shape,)), engine_for(queue).place
    if (found := _from_host(dtype, queue, "randint", first, last, sizes, dtype)) is not None:
        return found
    count = math.prod(sizes)
    if last - first > 2**31:
        words = current().words(2 * count, place).reshape(-1, 2).tolist()
        span = last - first
        return _made(torch.tensor([first + ((a << 32 | b) * span >> 64) for a, b in words]), sizes, dtype, queue)
    return _made(first + (current().words(count, place) * (last - first) >> 32), sizes, dtype, queue)


@computed()
def randperm(n: int, dtype: str = "int64", queue: Any = None) -> Any:
    """A random order of 0 .. n - 1; drawn on the host, so it is the same for every device."""
    if (found := _from_host(dtype, queue, "randperm", n)) is not None:
        return found
    words = current().words(2 * n, "cpu").reshape(-1, 2)
    order = torch.argsort((words[:, 0] << 31) ^ words[:, 1], stable=True)
    return _made(order.to(engine_for(queue).place), (n,), dtype, queue)


@computed()
def bernoulli(p: Any, shape: Any = None, dtype: str = "float32", queue: Any = None) -> Any:
    """1 with probability p, else 0: per element of a tensor p (its shape and dtype), or of ``shape`` for a number."""
    if isinstance(p, Tensor):
        if (found := _from_host(p.dtype, p.queue, "bernoulli", p, p.dtype)) is not None:
            return found
        return p.engine.wrap((_unit(p.size, p.engine.place).reshape(p.shape) < p._t).to(p._t.dtype))
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p is {p}, not in [0, 1]")
    sizes = _shape((() if shape is None else shape,))
    if (found := _from_host(dtype, queue, "bernoulli_", p, sizes)) is not None:
        return found
    return _made(_unit(math.prod(sizes), engine_for(queue).place) < p, sizes, dtype, queue)


@computed()
def dropout_mask(x: Tensor, p: float = 0.5, seed: int | None = None) -> Any:
    """True with probability 1 - p for each element of x: one word of 32 bits for each, in their order."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}, not in [0, 1]")
    if seed is not None:
        drawn = (Generator().manual_seed(seed).words(x.size, x.engine.place) >> 8).to(torch.float32) * 2.0**-24
    elif (found := _from_host("bool", x.queue, "bernoulli_", 1 - p, x.shape)) is not None:
        return found
    else:
        drawn = _unit(x.size, x.engine.place)
    return x.engine.wrap(drawn.reshape(x.shape) >= p)


def _channels(x: Any) -> Any:
    """A tensor with one element for each channel of x, for ``dropout_mask``."""
    return x.engine.empty((*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)


def _by_torch(function: Any, *tensors: Any) -> Any:
    """A draw with PyTorch's numbers, for a seed of this generator."""
    source = torch.Generator(device="cpu").manual_seed(current().draw_seed())
    value = function(*(one._t.cpu() for one in tensors), generator=source)
    return tensors[0].engine.wrap(value.to(tensors[0].engine.place))


@computed()
def poisson(x: Any) -> Any:
    """Numbers of the Poisson distribution with the rates x."""
    return _by_torch(torch.poisson, x)


@computed()
def binomial(count: Any, prob: Any) -> Any:
    """Numbers of the binomial distribution of ``count`` trials with the probabilities ``prob``."""
    return _by_torch(
        torch.binomial, *(Tensor._of(one.clone(), count.engine) for one in torch.broadcast_tensors(count._t, prob._t))
    )


def _kept(x: Any, mask: Any, p: float) -> Any:
    return call("mul", call("where", mask, x, 0.0), 0.0 if p == 1 else 1 / (1 - p))


def _dropout(x: Any, p: float = 0.5, training: bool = True, seed: int | None = None, return_mask: bool = False) -> Any:
    if not training:
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: p is {p}, not in [0, 1]")
        return (x, x.engine.wrap(torch.ones(x.shape, dtype=torch.bool, device=x.engine.place))) if return_mask else x
    mask = call("dropout_mask", x, p, seed)
    result = _kept(x, mask, p)
    return (result, mask) if return_mask else result


def _feature_dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    return _kept(x, call("dropout_mask", _channels(x), p), p) if training else x


def _alpha(channels: bool) -> Any:
    def compute(x: Any, p: float = 0.5, training: bool = False) -> Any:
        if not training:
            return x
        low = -1.7580993408473766
        mask = call("dropout_mask", _channels(x) if channels else x, p)
        scale = 0.0 if p == 1 else ((1 - p) * (1 + p * low**2)) ** -0.5
        return call("add", call("mul", call("where", mask, x, low), scale), -scale * low * p)

    return compute


def _permutation(x: Any, axis: int = 0) -> Any:
    if not isinstance(x, Tensor):
        return call("randperm", int(x))
    return call("index_select", x, axis, call("randperm", x.shape[axis], queue=x.queue))


composites("widest", {
    "dropout(x: Tensor, p=0.5, training=True, seed=None, return_mask=False)": _dropout,
    "feature_dropout(x: Tensor, p=0.5, training=True)": _feature_dropout,
    "alpha_dropout(x: Tensor, p=0.5, training=False)": _alpha(False),
    "feature_alpha_dropout(x: Tensor, p=0.5, training=False)": _alpha(True),
    "permutation(x: Tensor, axis=0)": _permutation,
})  # fmt: skip
