"""Rows that draw from the generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from netcl_core_kit.draws import drawing_at, get_rng_state, manual_seed, set_rng_state, skip, tell

from netcl.core.dtypes import TORCH, canonical
from netcl.core.engine.registry import engine_for
from netcl.core.tensor import Tensor
from netcl.core.tensor.generator import Generator, current
from netcl.core.tensor.host_draws import draw_on_host
from netcl.ops.kernels import T, rows
from netcl.ops.table import computed

__all__ = ["drawing_at", "get_rng_state", "manual_seed", "set_rng_state", "skip", "tell"]


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


def _drawn(kind: str, host: Any, device: Callable[[int, Any], T], sizes: Any, dtype: str, queue: Any) -> Any:
    """PyTorch's numbers, ``kind`` of the arguments ``host``, if the generator has them, else ``device(count, place)``."""
    engine = engine_for(queue)
    array = draw_on_host(engine, kind, *host)
    if array is not None:
        return Tensor.from_host(engine.queue, array, dtype)
    values = device(math.prod(sizes), engine.place)
    return engine.wrap(values.reshape(sizes).to(engine.place, TORCH[canonical(dtype)]))


@computed()
def rand(*shape: Any, dtype: str = "float32", queue: Any = None) -> Any:
    """Uniform numbers in [0, 1) of the given lengths."""
    sizes = _shape(shape)
    return _drawn("rand", (sizes, dtype), lambda n, at: _unit(n, at, canonical(dtype)), sizes, dtype, queue)


@computed()
def randn(*shape: Any, dtype: str = "float32", queue: Any = None) -> Any:
    """Standard normal numbers of the given lengths, by Box and Muller."""
    sizes = _shape(shape)
    return _drawn("randn", (sizes, dtype), _normals, sizes, dtype, queue)


@computed()
def uniform(low: float = 0.0, high: float = 1.0, shape: Any = (), dtype: str = "float32", queue: Any = None) -> Any:
    """Uniform numbers in [low, high): low + (high - low) u with the u of ``rand``."""
    sizes = _shape((shape,))

    def values(count: int, place: Any) -> T:
        return low + (high - low) * _unit(count, place, canonical(dtype))

    return _drawn("uniform", (low, high, sizes, dtype), values, sizes, dtype, queue)


@computed()
def normal(mean: float = 0.0, std: float = 1.0, shape: Any = (), dtype: str = "float32", queue: Any = None) -> Any:
    """Normal numbers: mean + std z with the z of ``randn``."""
    sizes = _shape((shape,))
    return _drawn("normal", (mean, std, sizes, dtype), lambda n, at: mean + std * _normals(n, at), sizes, dtype, queue)


@computed()
def randint(low: int, high: int | None = None, shape: Any = (), dtype: str = "int64", queue: Any = None) -> Any:
    """Integers in [low, high), or [0, low) if only one is given: low + (word * (high - low)) >> 32."""
    first, last = (0, low) if high is None else (low, high)
    if last <= first:
        raise ValueError(f"randint: [{first}, {last}) is empty")
    sizes, span = _shape((shape,)), last - first

    def values(count: int, place: Any) -> T:
        if span <= 2**31:
            return first + (current().words(count, place) * span >> 32)
        pairs = current().words(2 * count, "cpu").reshape(-1, 2).tolist()
        return torch.tensor([first + ((a << 32 | b) * span >> 64) for a, b in pairs])

    return _drawn("randint", (first, last, sizes, dtype), values, sizes, dtype, queue)


@computed()
def randperm(n: int, dtype: str = "int64", queue: Any = None) -> Any:
    """A random order of 0 .. n - 1; drawn on the host, so it is the same for every device."""

    def values(count: int, place: Any) -> T:
        words = current().words(2 * n, "cpu").reshape(-1, 2)
        return torch.argsort((words[:, 0] << 31) ^ words[:, 1], stable=True)

    return _drawn("randperm", (n,), values, (n,), dtype, queue)


@computed()
def bernoulli(p: Any, shape: Any = None, dtype: str = "float32", queue: Any = None) -> Any:
    """1 with probability p, else 0: per element of a tensor p (its shape and dtype), or of ``shape`` for a number."""
    if isinstance(p, Tensor):
        values = lambda n, at: _unit(n, at).reshape(p.shape) < p._t  # noqa: E731
        return _drawn("bernoulli", (p, p.dtype), values, p.shape, p.dtype, p.queue)
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p is {p}, not in [0, 1]")
    sizes = _shape((() if shape is None else shape,))
    return _drawn("bernoulli_", (p, sizes), lambda n, at: _unit(n, at) < p, sizes, dtype, queue)


@computed()
def dropout_mask(x: Tensor, p: float = 0.5, seed: int | None = None) -> Any:
    """True with probability 1 - p for each element of x: one word of 32 bits for each, in their order."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}, not in [0, 1]")
    if seed is None:
        return _drawn("bernoulli_", (1 - p, x.shape), lambda n, at: _unit(n, at) >= p, x.shape, "bool", x.queue)
    words = Generator().manual_seed(seed).words(x.size, x.engine.place)
    return x.engine.wrap(((words >> 8).to(torch.float32) * 2.0**-24).reshape(x.shape) >= p)


def _by_torch(function: Any, *tensors: T) -> T:
    """A draw with PyTorch's numbers, for a seed of this generator."""
    source = torch.Generator(device="cpu").manual_seed(current().draw_seed())
    return function(*(one.cpu() for one in tensors), generator=source).to(tensors[0].device)  # type: ignore[no-any-return]


rows("widest", {
    "poisson(x: Tensor)": lambda x: _by_torch(torch.poisson, x),
    "binomial(count: Tensor, prob: Tensor)": lambda count, prob: _by_torch(
        torch.binomial, *(one.clone() for one in torch.broadcast_tensors(count, prob))),
}, gradient=False)  # fmt: skip
