"""Capture and replay: a step is written down once as a flat list of launches and then run without Python per op.

``capture`` calls the function once with its launches recorded, not run; nothing on the device changes. State that the
function makes at its first call (optimizer moments, lazily made buffers) must exist before, so call the function
eagerly first. A replay copies its inputs into the captured ones, runs the launches, and hands out copies of the
results. Numbers that Python knows at capture (a branch taken, a float given to an op) are frozen; what changes per
step lives in tensors: learning rates, step counts, random counters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from netcl.core.backend.registry import ensure_same_backend
from netcl.core.dispatch import assign
from netcl.core.errors import CaptureError
from netcl.core.tensor import Tensor
from netcl.ops import random

__all__ = ["CapturedStep", "capture"]


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


def _replaced(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nest with every tensor replaced by ``change(tensor)``."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        items = [_replaced(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _replaced(item, change) for key, item in value.items()}
    return value


def _described(args: tuple[Any, ...]) -> tuple[Hashable, ...]:
    """Shapes and dtypes of tensor arguments, the others themselves: what a replay must repeat."""
    return tuple((arg.shape, arg.dtype) if isinstance(arg, Tensor) else _Same(arg) for arg in args)


class _Same:
    """An argument that is no tensor, equal to another only when it is equal in value and type."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and type(other.value) is type(self.value) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def _copy(tensor: Tensor) -> Tensor:
    fresh = tensor.engine.empty(tensor.shape, tensor.dtype)
    assign(fresh, tensor)
    return fresh


class CapturedStep:
    """A recorded call of ``fn``: ``replay(*inputs)`` does and returns what ``fn(*inputs)`` would have."""

    def __init__(
        self, fn: Callable[..., Any], samples: tuple[Any, ...], watch: Callable[[], Hashable] | None = None
    ) -> None:
        self._described = _described(samples)
        self._watch = watch
        self._watched = watch() if watch is not None else None
        self._engine = ensure_same_backend(list(_tensors(samples)), "capture")
        self._inputs = tuple(_replaced(sample, self._static) for sample in samples)
        engine: Any = self._engine
        if engine.recording is not None:
            raise CaptureError("a capture is open on this device already; captures do not nest")
        self._recording = engine.new_recording()
        start = random.tell()
        self._drawn_at = start - random.base(engine)
        engine.recording = self._recording
        try:
            self._result = fn(*self._inputs)
            self._draws = random.tell() - start
            if self._draws:
                random.record_advance(engine, self._draws)
        finally:
            engine.recording = None
            random.rewind(start)

    def _static(self, sample: Tensor) -> Tensor:
        """The tensor that stands for ``sample`` in the recorded call."""
        static = self._engine.empty(sample.shape, sample.dtype, persistent=True)
        static.requires_grad = sample.requires_grad
        assign(static, sample)
        return static

    def replay(self, *inputs: Any) -> Any:
        """Runs the recorded launches on ``inputs`` (tensors of the captured shapes and dtypes, or host arrays for
        them).

        CaptureError where arguments or the watched state are not those of the capture: capture again.
        """
        self._check(inputs)
        for static, value in zip(self._inputs, inputs):
            if isinstance(static, Tensor):
                if isinstance(value, Tensor) and value.engine is self._engine:
                    assign(static, value)
                else:
                    static.write(value)
        if self._draws:
            random.position(self._engine, random.tell() - self._drawn_at)
        self._recording.replay()
        if self._draws:
            random.advance(self._engine, self._draws)
        return _replaced(self._result, _copy)

    def _check(self, inputs: tuple[Any, ...]) -> None:
        if len(inputs) != len(self._inputs):
            raise CaptureError(f"replay: {len(inputs)} arguments, the capture had {len(self._inputs)}")
        for number, (static, value, known) in enumerate(zip(self._inputs, inputs, self._described)):
            if isinstance(static, Tensor):
                shape, dtype = tuple(getattr(value, "shape", ())), str(getattr(value, "dtype", type(value).__name__))
                # Host arrays are converted as from_host would; only their shape has to fit.
                if shape != static.shape or (isinstance(value, Tensor) and value.dtype != static.dtype):
                    raise CaptureError(
                        f"replay: argument {number} has shape {shape} and dtype {dtype}, captured were {static.shape} "
                        f"and {static.dtype}; capture again for other shapes"
                    )
            elif _Same(value) != known:
                raise CaptureError(f"replay: argument {number} is {value!r}, captured was {known!r}; capture again")
        if self._watch is not None and self._watch() != self._watched:
            raise CaptureError(
                "replay: parameters, training flags, parameter groups or other watched state changed; capture again"
            )

    def __len__(self) -> int:
        """The number of launches of a replay."""
        return len(self._recording)


def capture(fn: Callable[..., Any], *samples: Any, watch: Callable[[], Hashable] | None = None) -> CapturedStep:
    """Records ``fn(*samples)`` without running it; ``.replay(*inputs)`` then equals ``fn(*inputs)``, side effects on
    tensors included.

    ``samples`` are tensors (all on one device) and other values, which a replay must repeat. ``watch()`` gives a
    hashable of Python state that the step depends on (parameters, training flags); a replay raises CaptureError once
    it differs. CaptureError also where ``fn`` reads a value on the host or writes host data to the device.
    """
    return CapturedStep(fn, samples, watch)
