"""Random numbers: those of PyTorch for a seed on CPUs, and states of generators as tensors of bytes.

The first call of a function here gives the process's generator PyTorch's numbers (``Generator.numbers``); GPUs, dropout
and captured steps keep Philox, whose position is a part of the state: it is in bytes that PyTorch does not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import netcl as nc
from netcl.core import Tensor

_COUNT = slice(5016, 5024)  # of a state of PyTorch's CPU generator: the first number of a pair, which is not read
_SMALL = 16  # bytes of a state of Philox: seed and count


class Generator(nc.Generator):
    """A generator with PyTorch's numbers on "cpu", and with Philox's on GPUs.

    >>> import netcl.torch as torch
    >>> torch.randperm(5, generator=torch.Generator().manual_seed(0)).tolist()
    [4, 0, 1, 3, 2]
    """

    __slots__ = ()

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(nc.device(device), "mt19937" if str(device).partition(":")[0] == "cpu" else "philox")

    def get_state(self) -> Any:
        """Returns the state, uint8: 5,056 bytes in PyTorch's layout on "cpu", 16 bytes on GPUs."""
        return state_of(self)

    def set_state(self, new_state: Any) -> Generator:
        """Restores a state of ``get_state``, or of PyTorch's CPU generator."""
        restore(self, new_state)
        return self


def state_of(generator: nc.Generator) -> Tensor:
    """Returns the state of a generator as a tensor of bytes."""
    state = nc.Generator.get_state(generator)
    if generator.host is None:
        return _as_tensor(np.array([state["seed"], state["offset"]], "<u8").view(np.uint8))
    found = generator.host.get_state()
    found[_COUNT] = np.array([state["offset"]], "<u8").view(np.uint8)
    return _as_tensor(found)


def restore(generator: nc.Generator, state: Any) -> None:
    """Sets the state of a generator from a tensor of bytes or a dict of ``netcl.get_rng_state``.

    Raises TypeError for an object of another kind, ValueError for bytes that are no state.
    """
    if isinstance(state, dict):
        nc.Generator.set_state(generator, state)
        return
    found = state.numpy() if isinstance(state, Tensor) else np.asarray(state)
    if found.dtype != np.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    if found.size == _SMALL:
        seed, offset = found.view("<u8").tolist()
    else:
        known = generator.host or nc.Generator(numbers="mt19937").host
        assert known is not None
        known.set_state(found)
        generator.host = known
        seed, offset = known.initial_seed(), int(found[_COUNT].view("<u8")[0])
    nc.Generator.set_state(generator, {"seed": seed, "offset": offset})


def _as_tensor(state: np.ndarray[Any, Any]) -> Tensor:
    made: Tensor = nc.tensor(state.copy(), dtype="uint8", device="cpu")
    return made


def _default() -> nc.Generator:
    """Returns the process's generator, with PyTorch's numbers from now on."""
    generator: nc.Generator = nc.default_generator
    generator.numbers = "mt19937"
    return generator


def manual_seed(seed: int) -> nc.Generator:
    """Seeds the process's generator for all devices and returns it; any int, taken modulo 2**64."""
    return _default().manual_seed(seed)


def seed() -> int:
    """Seeds the process's generator from the system's random numbers and returns the seed."""
    return _default().seed()


def initial_seed() -> int:
    """Returns the seed of the process's generator."""
    host = _default().host
    assert host is not None
    return host.initial_seed()


def get_rng_state() -> Tensor:
    """Returns the state of the process's generator, 5,056 bytes in PyTorch's layout."""
    return state_of(_default())


def set_rng_state(new_state: Any) -> None:
    """Restores a state of ``get_rng_state``, of PyTorch or of ``netcl.get_rng_state``."""
    restore(_default(), new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Draws inside the block leave the state of the process's generator as it was, for all devices."""
    state = _default().get_state()
    try:
        yield
    finally:
        if enabled:
            nc.default_generator.set_state(state)
