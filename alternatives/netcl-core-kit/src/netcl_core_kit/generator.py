"""Generators: a seed and a position, of which a core draws the numbers; on request PyTorch's numbers on CPUs.

A core tells by ``use_draws`` its function of a seed and a position, and the class of generators of PyTorch's numbers.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from netcl_core_kit import config

__all__ = ["Generator", "current", "default_generator", "drawing_from", "initial_seed", "seed", "use_draws"]

_DEFAULT_SEED = 67280421310721


class Generator:
    """A seed and a position of its own, for ``generator=`` of functions that draw; with ``numbers="mt19937"`` draws on
    CPUs are those of ``host``, PyTorch's generator.
    """

    def __init__(self, device: Any = "cpu", numbers: str = "philox") -> None:
        self.device = device
        self._seed, self.offset = _DEFAULT_SEED, 0
        self.lock = threading.Lock()
        self.host: Any = None
        self.numbers = numbers

    @property
    def numbers(self) -> str:
        """``philox`` or ``mt19937``."""
        return "philox" if self.host is None else "mt19937"

    @numbers.setter
    def numbers(self, name: str) -> None:
        if name not in ("philox", "mt19937"):
            raise ValueError(f"numbers are philox or mt19937, not {name!r}")
        self.host = _draws.host(self._seed) if name == "mt19937" else None

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
            self.host = self.host or _draws.host()
            self.host.set_state(np.frombuffer(base64.b64decode(new_state["mt19937"]), np.uint8))
        return self

    def draw_seed(self) -> int:
        """63 bits for another generator; uses one counter."""
        a, b = self.words(2, "cpu").tolist()
        return int((a << 32 | b) >> 1)

    def words(self, count: int, place: Any) -> Any:
        """The next ``count`` words of 32 bits: Philox 4x32-10 with the seed as its key, four words for a position."""
        blocks = -(-count // 4)
        with self.lock:
            start, self.offset = self.offset, self.offset + blocks
        return _draws.words(self._seed, start, blocks, place)[:count]


class _Draws:
    """What a core tells by ``use_draws``."""

    words: Any = None
    host: Any = None


_draws = _Draws()


def use_draws(words: Callable[[int, int, int, Any], Any], host: type) -> None:
    """Tells ``words(seed, position, blocks, place)``, four words of 32 bits for each of ``blocks`` positions, and the
    class of generators of PyTorch's numbers.
    """
    _draws.words, _draws.host = words, host


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
