"""CompiledFunction: when a function runs op by op, when it is captured, and when a capture is replayed.

It is the one policy of all that captures by itself: ``compile_training_step`` and ``nc.compile``, the Trainer, and the
steps of data-parallel training. ``CompiledGraph`` and ``Module.compile`` capture when they are asked to.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from netcl.autograd.grad_node import GradNode
from netcl.autograd.levels import LEVELS, without
from netcl.autograd.prediction import postponing
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.core.process.user_frame import level_outside

if TYPE_CHECKING or "capture" in LEVELS:
    from netcl.runtime.capture import CapturedStep, capture, is_capturing

_IDLE_CALLS = 1000  # a capture that was not used in as many calls gives its place to another kind of call
_KINDS = 1024  # kinds of calls that are counted before they are captured
_DOUBLINGS = 10  # of the warm-up, by replays that are refused one after the other


class Check(Protocol):
    """Compares replays with calls."""

    def due(self) -> bool:
        """Counts a replay; returns True if it must be compared."""
        ...

    def __call__(self, replay: Callable[[], Any], call: Callable[[], Any]) -> str | None:
        """Runs both from the same state and keeps the state of ``call``; returns a sentence if they differ."""
        ...


class CompiledFunction:
    """Calls ``fn`` op by op ``warmup`` times for each kind of call, then captures it, and then replays the capture.

    The kind of a call is the shapes and dtypes of its tensors, and its other arguments. ``max_shapes`` captures are
    kept, as each has its own intermediate buffers; calls of a further kind run op by op until a capture is idle. A
    function that cannot be captured runs op by op from then on, after one warning. So does a function that ``check``
    rejects, or that returns a tensor with a backward pass to come: a replay gives values without a graph. If a
    replay is refused, as the state has changed since the capture, all captures are dropped, and the warm-up begins
    again.

    With ``background`` a function goes on op by op while child processes build the programs of a capture; it is called
    again for the capture when they are built.

    ``prepare`` makes the arguments of calls and captures from the arguments of replays, which may be host arrays;
    ``watch`` is the argument of ``capture``. ``capturing()`` is entered for each capture. On a core without captures
    the function runs op by op.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        warmup: int = 2,
        max_shapes: int = 8,
        watch: Callable[[], Hashable] | None = None,
        check: Check | None = None,
        prepare: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple,
        capturing: Callable[[], AbstractContextManager[Any]] = nullcontext,
        enabled: bool = True,
        background: bool = False,
    ) -> None:
        self._fn, self._warmup, self._max_shapes = fn, warmup, max_shapes
        self._watch, self._check, self._prepare, self._capturing = watch, check, prepare, capturing
        self.enabled: bool = enabled and not without("capture", "compiled functions run op by op")
        self.replays: int = 0
        self._background = background
        self._ready: Callable[[], bool] | None = None  # False while programs of a capture are built
        self._calls: dict[Hashable, int] = {}
        self._captured: dict[tuple[Hashable, Hashable], CapturedStep] = {}
        self._used: dict[tuple[Hashable, Hashable], int] = {}  # the number of the last call of each capture
        self._clock = 0
        self._refused = 0  # replays, one after the other

    def __call__(self, *inputs: Any) -> Any:
        if not self.enabled or not all(isinstance(x, Hashable) for x in inputs):
            return self._fn(*inputs)
        tensors = list(_tensors(inputs))
        # Inside of another capture its calls are part of that one.
        if not tensors or is_capturing(tensors):
            return self._fn(*inputs)
        return self.call(tuple([_described(x) for x in inputs]), inputs)

    def call(
        self, kind: Hashable, inputs: tuple[Any, ...], variant: Hashable = None, repeats: bool = True, **options: Any
    ) -> Any:
        """Returns the result of ``fn(*inputs, **options)``, by a replay if calls of this kind are repeated.

        The options are part of the kind. A ``variant`` has a capture of its own, and the warm-up of its kind.
        ``repeats=False`` runs op by op.
        """
        self._clock += 1
        place = kind, variant
        captured = self._captured.get(place) if repeats else None
        first = captured is None
        if captured is None:
            captured = self._first(place, inputs, options) if repeats and self.repeats(kind) else None
        if captured is None:
            return self._eager(kind, inputs, options)
        self._used[place] = self._clock
        try:
            if self._check is not None and (first or self._check.due()):
                return self._compared(self._check, captured, inputs, options)
            result = captured.replay(*inputs)
        except CaptureError:
            self._refused += 1
            self.clear()
            return self._eager(kind, inputs, options)
        self.replays += 1
        self._refused = 0
        return result

    def repeats(self, kind: Hashable) -> bool:
        """Returns True if the next call of this kind is captured or replayed."""
        if not self.enabled:
            return False
        if self._ready is not None and not self._ready():
            return self.has_captured(kind)
        warm = self._calls.get(kind, 0) >= self._warmup << min(max(self._refused - 1, 0), _DOUBLINGS)
        if warm and len(self._captured) < self._max_shapes:
            return True
        return self.has_captured(kind) or (warm and self._clock - min(self._used.values()) > _IDLE_CALLS)

    def has_captured(self, kind: Hashable) -> bool:
        """Returns True if a call of this kind is captured, in any variant."""
        return any(known == kind for known, _ in self._captured)

    @property
    def captures(self) -> int:
        """The number of captures that are kept."""
        return len(self._captured)

    def clear(self) -> None:
        """Drops all captures; each kind of call begins with its warm-up."""
        self._calls.clear()
        self._captured.clear()
        self._used.clear()

    def capture(self, *inputs: Any, **options: Any) -> CapturedStep | None:
        """Captures ``fn``; None on a core without captures. Raises CaptureError if ``fn`` reads a value on the host."""
        if not self.enabled:
            return None
        return self._capture(inputs, options, wait=True)

    def _capture(self, inputs: tuple[Any, ...], options: dict[str, Any], wait: bool) -> CapturedStep:
        fn = functools.partial(self._fn, **options) if options else self._fn
        with self._capturing():
            return capture(fn, *inputs, watch=self._watch, wait=wait)

    def stay_eager(self, reason: str) -> None:
        """Runs the function op by op from now on, and warns with ``reason``."""
        self.enabled = False
        self.clear()
        warnings.warn(
            f"the step is not compiled: {reason}; it goes on op by op", UserWarning, stacklevel=level_outside()
        )

    def _first(
        self, place: tuple[Hashable, Hashable], inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> CapturedStep | None:
        """Returns a new capture, in the place of the one that was idle for longest if there is no other place."""
        try:
            wait = not self._background or self._ready is not None
            captured = self._capture(self._prepare(inputs), options, wait)
        except CaptureError as error:
            if error.ready is not None:
                self._ready = error.ready
                return None
            self.stay_eager(str(error))
            return None
        self._ready = None
        if len(self._captured) >= self._max_shapes:
            idle = min(self._used, key=self._used.__getitem__)
            del self._captured[idle], self._used[idle]
        self._captured[place] = captured
        return captured

    def _eager(self, kind: Hashable, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        # Steps that will be captured are not predicted too.
        with nullcontext() if self._ready is None else postponing(ends=False):
            result = self._fn(*self._prepare(inputs), **options)
        if not self.enabled:
            return result
        if kind not in self._calls and len(self._calls) >= _KINDS:
            del self._calls[next(iter(self._calls))]
        self._calls[kind] = self._calls.get(kind, 0) + 1
        if any(_awaits_backward(tensor) for tensor in _tensors(result)):
            self.stay_eager("it returns a tensor before its backward pass; call backward in it, or no_grad")
        return result

    def _compared(self, check: Check, captured: CapturedStep, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Returns the result of the call; the replay takes copies, as the function may write into its arguments."""
        copies = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
        results: list[Any] = []
        difference = check(
            lambda: captured.replay(*copies), lambda: results.append(self._fn(*self._prepare(inputs), **options))
        )
        if difference is not None:
            self.stay_eager(difference)
        return results[0]


def _described(x: Any) -> Hashable:
    """Returns shape and dtype of a tensor, and of tensors in tuples; of other arguments the type and the value."""
    if isinstance(x, Tensor):
        return x.shape, x.dtype
    return type(x), tuple([_described(part) for part in x]) if isinstance(x, tuple) else x


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yields the tensors of nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def _awaits_backward(tensor: Tensor) -> bool:
    """Returns True if a node of the tensor's graph still has its saved values: no backward has freed them."""
    nodes, seen = [getattr(tensor.grad_fn, "node", tensor.grad_fn)], set()
    while nodes:
        node = nodes.pop()
        if not isinstance(node, GradNode) or id(node) in seen:
            continue
        if node.saved:
            return True
        seen.add(id(node))
        nodes += [edge[0] for edge in node.edges if edge is not None]
    return False
