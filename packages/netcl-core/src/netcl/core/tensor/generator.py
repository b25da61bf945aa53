"""Generators of random numbers: a seed and a count of Philox counters used, the process's own and the ones of programs.

A draw takes its numbers from the generator that ``drawing_from`` sets in the calling thread, else from the process's,
which ``standing_in`` replaces in that thread alone. NETCL_SEED seeds the process's generator; without it each process
is different. A generator with other ``numbers`` than "philox" gives draws on CPUs the numbers of a class in
``HOST_NUMBERS``, which extensions fill: with "mt19937" they are PyTorch's. GPUs, dropout and captured steps use
its Philox counters.
"""

from __future__ import annotations

import base64
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from netcl.core import config

lock = threading.RLock()  # of the counts of all generators
_FIRST_SEED = 67280421310721  # of a generator that was not seeded: the same in every process, as in PyTorch


class HostNumbers(Protocol):
    """A generator on the host: its draws are methods by the names that ``draw_on_host`` is called with."""

    numbers: str

    def manual_seed(self, seed: int) -> None:
        """Sets the seed."""

    def initial_seed(self) -> int:
        """Returns the seed that was set last."""
        ...

    def get_state(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Returns the state as bytes."""
        ...

    def set_state(self, state: Any) -> None:
        """Sets the state from bytes; raises ValueError for others."""


# The generators on the host by their names, each called with a seed.
HOST_NUMBERS: dict[str, Callable[[int], HostNumbers]] = {}


def _host_numbers(name: str) -> Callable[[int], HostNumbers]:
    """Returns the class of ``HOST_NUMBERS``, loaded from the entry points of the group ``netcl.numbers`` at first use.

    Raises ValueError if no installed distribution has the name.
    """
    if name not in HOST_NUMBERS:
        from importlib.metadata import entry_points

        for entry in entry_points(group="netcl.numbers", name=name):
            HOST_NUMBERS[name] = entry.load()
    if name not in HOST_NUMBERS:
        distribution = getattr(sys.modules["netcl"], "_NUMBERS", {}).get(name)
        cure = f": pip install {distribution}" if distribution else ""
        known = ", ".join(map(repr, ("philox", *HOST_NUMBERS)))
        raise ValueError(f"numbers: expected one of {known}, got {name!r}{cure}")
    return HOST_NUMBERS[name]


def _settle() -> None:
    """Has predicted calls of this thread draw their numbers first."""
    if _thread.predicted is not None:
        _thread.predicted.settle("a generator was used")


class Generator:
    """A seed and a position of its own, for ``generator=`` of functions that draw: ``nc.Generator().manual_seed(7)``.

    The numbers do not depend on the device, so one generator serves all devices; ``device`` is kept for programs that
    read it. A generator that was not seeded begins with PyTorch's default seed, the same in every process. The numbers
    of a seed are Philox's; with ``numbers="mt19937"``, of an extension, draws on CPUs have PyTorch's numbers. Raises
    ValueError for names that no extension has.

    >>> g = Generator().manual_seed(7)
    >>> state = g.get_state()
    >>> g.initial_seed(), state
    (7, {'seed': 7, 'offset': 0})
    """

    __slots__ = ("_seed", "device", "host", "offset")

    def __init__(self, device: Any = "cpu", numbers: str = "philox") -> None:
        self.device: Any = device
        self._seed: int | None = _FIRST_SEED
        self.offset: int = 0  # counters used
        self.host: HostNumbers | None = None  # of draws on CPUs
        self.numbers = numbers

    @property
    def numbers(self) -> str:
        """The generator of draws on CPUs: "philox" or an extension's, as "mt19937". A change begins at the seed."""
        return "philox" if self.host is None else self.host.numbers

    @numbers.setter
    def numbers(self, name: str) -> None:
        made = None if name == "philox" else _host_numbers(name)
        with lock:
            if name != self.numbers:
                self.host = None if made is None else made(self.initial_seed())

    def manual_seed(self, seed: int) -> Generator:
        """Sets the seed, any int taken modulo 2**64, and resets the position; returns the generator."""
        given: Any = seed
        if isinstance(given, float) and not given.is_integer():
            raise TypeError(f"expected a whole number as seed, got {seed!r}")
        _settle()
        with lock:
            self._seed, self.offset = int(seed) % 2**64, 0
            if self.host is not None:
                self.host.manual_seed(self._seed)
        return self

    def seed(self) -> int:
        """Sets a seed from the system's random numbers and returns it."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        """Returns the seed that the generator was last given."""
        with lock:
            if self._seed is None:  # the process's, at its first use
                setting = config.get("SEED")
                self._seed = int.from_bytes(os.urandom(8), "little") if setting is None else int(setting) % 2**64
            return self._seed

    def get_state(self) -> dict[str, Any]:
        """Returns {"seed", "offset"}, for ``set_state`` or for storage; PyTorch's is a tensor of bytes. With other
        numbers than Philox's the state has their name too, with their state as text in base64.
        """
        _settle()
        with lock:
            state: dict[str, Any] = {"seed": self.initial_seed(), "offset": self.offset}
            if self.host is not None:
                state[self.numbers] = base64.b64encode(self.host.get_state().tobytes()).decode()
            return state

    def set_state(self, new_state: Mapping[str, Any]) -> Generator:
        """Sets the seed and the position that ``get_state`` returned; TypeError for another object.

        A state of Philox alone leaves other numbers where they are.
        """
        others = set(new_state) - {"seed", "offset"} if isinstance(new_state, Mapping) else set()
        if not isinstance(new_state, Mapping) or len(new_state) != 2 + len(others) or len(others) > 1:
            raise TypeError(
                f'the state of a generator is {{"seed": ..., "offset": ...}}, not {new_state!r:.100}; PyTorch\'s '
                "states are of another generator: save get_state() of netcl, or write manual_seed(seed)"
            )
        _settle()
        with lock:
            for name in others:
                self.numbers = name  # ValueError before anything has changed
            self._seed, self.offset = int(new_state["seed"]) % 2**64, int(new_state["offset"])
            for name in others:
                assert self.host is not None
                self.host.set_state(np.frombuffer(base64.b64decode(new_state[name]), np.uint8))
        return self

    def clone_state(self) -> Generator:
        """Returns a new generator with this one's seed and position."""
        return type(self)(self.device).set_state(self.get_state())

    def take(self, count: int) -> int:
        """Counts ``count`` counters as used, and returns the number of those used before."""
        _settle()
        with lock:
            before = self.offset
            self.offset += count
            return before

    def draw_seed(self) -> int:
        """Returns 63 bits for another generator, as netcl.data's orders have; uses one counter."""
        with lock:
            key, counter = self.initial_seed(), self.take(1)
        words = np.random.Philox(key=np.array([key, 2], np.uint64), counter=counter).random_raw(1)
        return int(words[0]) >> 1

    def __getstate__(self) -> tuple[Any, dict[str, Any]]:
        return str(self.device), Generator.get_state(self)

    def __setstate__(self, state: tuple[Any, dict[str, Any]]) -> None:
        Generator.__init__(self, state[0])
        Generator.set_state(self, state[1])

    def __repr__(self) -> str:
        return f"<netcl.Generator seed={self.initial_seed()} offset={self.offset}>"


default_generator = Generator()
default_generator._seed = None


class _Thread(threading.local):
    generator: Generator | None = None
    stand_in: Generator | None = None
    predicted: Any = None


_thread = _Thread()


def predict_draws(predicted: Any) -> None:
    """Has the calling thread call ``predicted.settle(cause)`` before a generator is used, as calls that draw were
    predicted and are not computed yet. None for no such calls.
    """
    _thread.predicted = predicted


def predicted_draws() -> Any:
    """Returns what ``predict_draws`` was called with last."""
    return _thread.predicted


def generator_of_thread() -> Generator:
    """Returns the generator that draws of the calling thread use."""
    return _thread.generator or process_generator()


def process_generator() -> Generator:
    """Returns the process's generator, or its replacement in the calling thread."""
    return _thread.stand_in or default_generator


@contextmanager
def standing_in(generator: Generator) -> Iterator[Generator]:
    """Within the block ``generator`` is the process's for this thread; for others, and afterwards, it is as it was."""
    outer = _thread.stand_in
    _thread.stand_in = generator
    try:
        yield generator
    finally:
        _thread.stand_in = outer


@contextmanager
def drawing_from(generator: Generator | None) -> Iterator[None]:
    """Draws inside the block use ``generator``; None changes nothing. Raises TypeError for another object."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(
            f"generator= takes a netcl.Generator, not {type(generator).__module__}.{type(generator).__name__}; write "
            "generator=nc.Generator().manual_seed(seed)"
        )
    outer = _thread.generator
    _thread.generator = outer if generator is None else generator
    try:
        yield
    finally:
        _thread.generator = outer


def seed() -> int:
    """Seeds the process's generator from the system's random numbers and returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Returns the seed of the process's generator."""
    return default_generator.initial_seed()
