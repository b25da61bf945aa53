"""Generators: Philox 4x32-10 by seed and position, the same bits on every device; on request PyTorch's on CPUs."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from netcl.core import config
from netcl.core.tensor.mt19937 import MT19937

__all__ = ["Generator", "current", "default_generator", "drawing_from", "initial_seed", "seed"]

_MASK = 0xFFFFFFFF
_DEFAULT_SEED = 67280421310721


class Generator:
    """A seed and a position of its own, for ``generator=`` of functions that draw; with ``numbers="mt19937"`` draws on
    CPUs are those of ``host``, PyTorch's generator.
    """

    def __init__(self, device: Any = "cpu", numbers: str = "philox") -> None:
        self.device = device
        self._seed, self.offset = _DEFAULT_SEED, 0
        self.lock = threading.Lock()
        self.host: MT19937 | None = None
        self.numbers = numbers

    @property
    def numbers(self) -> str:
        """``philox`` or ``mt19937``."""
        return "philox" if self.host is None else "mt19937"

    @numbers.setter
    def numbers(self, name: str) -> None:
        if name not in ("philox", "mt19937"):
            raise ValueError(f"numbers are philox or mt19937, not {name!r}")
        self.host = MT19937(self._seed) if name == "mt19937" else None

    def manual_seed(self, seed: int) -> Generator:
        """Sets the seed, any int taken modulo 2**64, and resets the position; returns the generator."""
        self._seed, self.offset = int(seed) % 2**64, 0
        if self.host is not None:
            self.host.manual_seed(self._seed)
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self._seed

    def seed(self) -> int:
        """Sets a seed of the operating system, and returns it."""
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """{"seed", "offset"}, for ``set_state`` or for storage; with "mt19937", the state of ``host`` as text."""
        state: dict[str, Any] = {"seed": self._seed, "offset": self.offset}
        if self.host is not None:
            state["mt19937"] = base64.b64encode(self.host.get_state().tobytes()).decode()
        return state

    def set_state(self, new_state: Mapping[str, Any]) -> Generator:
        """Sets the seed and the position that ``get_state`` returned; TypeError for another object."""
        if not isinstance(new_state, Mapping) or not {"seed", "offset"} <= set(new_state):
            raise TypeError(f"a state of a generator is {{'seed', 'offset'}}, not {new_state!r}")
        self._seed, self.offset = int(new_state["seed"]) % 2**64, int(new_state["offset"])
        if "mt19937" in new_state:
            self.host = self.host or MT19937()
            self.host.set_state(np.frombuffer(base64.b64decode(new_state["mt19937"]), np.uint8))
        return self

    def draw_seed(self) -> int:
        """63 bits for another generator; uses one counter."""
        a, b = self.words(2, "cpu").tolist()
        return int((a << 32 | b) >> 1)

    def words(self, count: int, place: Any) -> torch.Tensor:
        """The next ``count`` words of 32 bits, as int64."""
        blocks = -(-count // 4)
        with self.lock:
            start, self.offset = self.offset, self.offset + blocks
        at = torch.arange(start, start + blocks, dtype=torch.int64, device=place)
        c0, c1 = at & _MASK, at >> 32
        c2 = c3 = torch.zeros_like(at)
        k0, k1 = self._seed & _MASK, self._seed >> 32
        for _ in range(10):
            low, high = c0 * 0xD2511F53, c2 * 0xCD9E8D57
            c0, c2 = ((high >> 32) & _MASK) ^ c1 ^ k0, ((low >> 32) & _MASK) ^ c3 ^ k1
            c1, c3 = high & _MASK, low & _MASK
            k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
        return torch.stack((c0, c1, c2, c3), 1).reshape(-1)[:count]


default_generator = Generator()
_chosen = config.get("SEED")
default_generator.manual_seed(_chosen) if _chosen is not None else default_generator.seed()


class _Local(threading.local):
    generator: Generator | None = None


_local = _Local()


def current() -> Generator:
    """The generator of the draws of this thread."""
    return _local.generator or default_generator


@contextmanager
def drawing_from(generator: Generator | None) -> Iterator[None]:
    """Draws inside the block use ``generator``; None changes nothing. TypeError for another object."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator is a Generator, not a {type(generator).__name__}")
    before = _local.generator
    _local.generator = generator or before
    try:
        yield
    finally:
        _local.generator = before


def initial_seed() -> int:
    """The seed of the process's generator."""
    return default_generator.initial_seed()


def seed() -> int:
    """Seeds the process's generator with a number of the operating system, and returns it."""
    return default_generator.seed()
