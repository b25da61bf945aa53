"""Random numbers of device "ocl": netcl's generator, and one of PyTorch on the CPU for what netcl has no numbers of.

A generator in a call is one of the CPU, and its numbers are drawn on the host: PyTorch makes no generator of a device
in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch

from netcl import ops
from torch_netcl import memory, overload
from torch_netcl.memory import DTYPES, ENGINE, put, take

HOST = torch.Generator().manual_seed(ops.get_rng_state()["seed"] % 2**63)
TABLE: dict[str, Callable[..., Any]] = {}
_QUEUE = ENGINE.queue


def manual_seed(seed: int) -> None:
    """Seeds both generators."""
    ops.manual_seed(seed)
    HOST.manual_seed(seed)


def get_state() -> torch.Tensor:
    """Returns the states of both generators as bytes."""
    state = ops.get_rng_state()
    words = struct.pack("<QQ", state["seed"] % 2**64, state["offset"] % 2**64)
    return torch.cat([torch.tensor(list(words), dtype=torch.uint8), HOST.get_state()])


def set_state(state: torch.Tensor) -> None:
    """Restores states that ``get_state`` returned."""
    seed, offset = struct.unpack("<QQ", bytes(state[:16].tolist()))
    ops.set_rng_state({"seed": seed, "offset": offset})
    HOST.set_state(state[16:].clone())


def kernel(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers ``draw(x, ...)``, which returns netcl's numbers for the tensor x, as the kernel of an overload.

    With a generator, or for a dtype that netcl does not draw, PyTorch draws on the CPU.
    """
    op = overload(name)

    def add(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(x: torch.Tensor, *args: Any, generator: Any = None) -> torch.Tensor:
            if generator is None and x.dtype in DTYPES and (x.dtype.is_floating_point or name.startswith(("r", "b"))):
                values = draw(x, *args)
                if values is not None:
                    put(x, values)
                    return x
            moved = [memory.to_cpu(value) if isinstance(value, torch.Tensor) else value for value in args]
            values = torch.empty(x.shape, dtype=x.dtype)
            op(values, *moved, generator=HOST if generator is None else generator)
            memory.put_cpu(x, values)
            return x

        TABLE[name] = drawn
        return draw

    return add


def _floating(x: torch.Tensor) -> Any:
    return DTYPES[x.dtype]


@kernel("normal_")
def normal(x, mean=0.0, std=1.0):
    """Draws normal numbers."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return ops.normal(mean, std, tuple(x.shape), _floating(x), _QUEUE)


@kernel("uniform_")
def uniform(x, low=0.0, high=1.0):
    """Draws uniform numbers."""
    return ops.uniform(low, high, tuple(x.shape), _floating(x), _QUEUE) if low <= high else None


@kernel("exponential_")
def exponential(x, lambd=1.0):
    """Draws exponential numbers: -log(1 - u) / lambd."""
    if lambd <= 0:
        return None
    return ops.mul(ops.log1p(ops.neg(ops.uniform(0.0, 1.0, tuple(x.shape), _floating(x), _QUEUE))), -1.0 / lambd)


@kernel("bernoulli_.float")
def bernoulli(x, p=0.5):
    """Draws 1 with probability p."""
    if not 0 <= p <= 1:
        return None
    return ops.lt(ops.uniform(0.0, 1.0, tuple(x.shape), "float32", _QUEUE), p)


@kernel("bernoulli_.Tensor")
def bernoulli_each(x, p):
    """Draws 1 with the probability of each element."""
    if p.device.type != "ocl":
        return None
    return ops.lt(ops.uniform(0.0, 1.0, tuple(x.shape), "float32", _QUEUE), take(p))


@kernel("random_.from")
def random_from(x, low, high):
    """Draws whole numbers from low to below high."""
    if high is None or not 0 < high - low < 2**31 or not -(2**31) <= low < 2**31:
        return None
    return ops.randint(low, high, tuple(x.shape), "int64", _QUEUE)


@kernel("random_.to")
def random_to(x, high):
    """Draws whole numbers from 0 to below high."""
    return random_from(x, 0, high)
