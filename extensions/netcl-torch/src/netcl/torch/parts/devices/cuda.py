"""torch.cuda over the GPUs of OpenCL: streams, events, seeds; memory and properties are in ``gpus``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import netcl as nc
from netcl.core import Tensor
from netcl.core.errors import OutOfMemoryError as OutOfMemoryError
from netcl.core.errors import UnsupportedError
from netcl.torch.parts.devices import gpus
from netcl.torch.parts.numbers import restore, state_of

reset_max_memory_allocated: Callable[..., None] = gpus.reset_peak_memory_stats
reset_max_memory_cached: Callable[..., None] = gpus.reset_peak_memory_stats
reset_accumulated_memory_stats: Callable[..., None] = gpus.reset_peak_memory_stats
memory_cached: Callable[..., int] = gpus.memory_reserved
max_memory_cached: Callable[..., int] = gpus.max_memory_reserved

_NO_CUDA = "the GPUs here are OpenCL devices; there is no CUDA"


def init() -> None:
    """Does nothing: devices are opened at their first use."""


def is_initialized() -> bool:
    """True if there is a GPU."""
    return gpus.is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True if there is a GPU: all store bfloat16 and compute it in float32 or on matrix units."""
    return gpus.is_available()


def is_tf32_supported() -> bool:
    """False: float32 products are computed in float32."""
    return False


def get_arch_list() -> list[str]:
    """No architectures: kernels are built for the device at run time."""
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory of tensors and of the pool, as text."""
    return "\n".join(f"{name}: {count}" for name, count in gpus.memory_stats(device).items())


def manual_seed(seed: int) -> None:
    """Seeds the numbers of GPUs; those of "cpu" go on. Does nothing without a GPU."""
    if gpus.is_available():
        nc.default_generator.set_state({"seed": seed, "offset": 0})


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds the numbers of GPUs from the system's random numbers."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


seed_all = seed


def initial_seed() -> int:
    """The seed of the numbers of GPUs."""
    return nc.default_generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the numbers of GPUs, which all share: 16 bytes."""
    state = nc.default_generator.get_state()
    return state_of(nc.Generator().set_state({"seed": state["seed"], "offset": state["offset"]}))


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Restores a state of ``get_rng_state``."""
    restore(nc.default_generator, new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the numbers of GPUs, once."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restores the first state."""
    for state in list(new_states)[:1]:
        set_rng_state(state)


class Stream:
    """The order of work of a GPU: its one queue; a program with several streams gets the same results."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device: Any = nc.device(f"cuda:{gpus.index_of(device)}")
        self.priority: int = priority

    def synchronize(self) -> None:
        """Waits for the work of the GPU."""
        gpus.synchronize(self.device)

    def wait_stream(self, stream: Stream) -> None:
        """Waits for the other GPU's work, if it is another."""
        if stream.device != self.device:
            stream.synchronize()

    def wait_event(self, event: Event) -> None:
        """Returns at once: the queue keeps its order."""

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one by default, and returns it."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """True, after the work of the GPU: there is no way to ask without waiting."""
        self.synchronize()
        return True


def current_stream(device: Any = None) -> Stream:
    """The stream of a GPU."""
    return Stream(device)


default_stream = current_stream


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """A block that changes nothing, as a GPU has one queue."""
    yield


StreamContext = stream


class Event:
    """A point in the work of a GPU; ``record`` waits for the work before it, so that times are those of the work."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Takes the time after all work so far."""
        if gpus.is_available():
            gpus.synchronize(None if stream is None else stream.device)
        self._at = perf_counter()

    def synchronize(self) -> None:
        """Returns at once: ``record`` has waited."""

    def wait(self, stream: Stream | None = None) -> None:
        """Returns at once: ``record`` has waited."""

    def query(self) -> bool:
        """True if it has been recorded."""
        return self._at is not None

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; raises RuntimeError if one has not been recorded."""
        if self._at is None or end_event._at is None:
            raise RuntimeError("elapsed_time: both events have to be recorded first")
        return 1000 * (end_event._at - self._at)


class CUDAGraph:
    """Refused: raises UnsupportedError; ``netcl.runtime.capture`` records the launches of a step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(f"{_NO_CUDA} graph; write netcl.runtime.capture(step, *batch), and its replay(*batch)")


def graph(*args: Any, **kwargs: Any) -> Any:
    """Refused as ``CUDAGraph`` is."""
    return CUDAGraph()


def ipc_collect() -> None:
    """Does nothing: no memory is shared with other processes."""


def utilization(device: Any = None) -> int:
    """Raises UnsupportedError: OpenCL does not report it."""
    raise UnsupportedError("OpenCL does not report how busy a device is")
