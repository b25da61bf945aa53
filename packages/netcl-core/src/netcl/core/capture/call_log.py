"""The call log of a captured step: the engine calls that its launches come from, so that they can be fused and
recorded again.

A CallLog is an interceptor of the engine calls of the thread that records. It logs each outermost call with its
arguments, each tensor as a ``Ref``: a number for the storage and how often that has been written (an SSA value).
Nothing here keeps a tensor of the recording's arena alive, so that the arena is used as without a log.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netcl.core.capture.labels import current, label_launches
from netcl.core.engine.interceptors import Interceptor, Layer
from netcl.core.graph.call import LoggedCall, Ref, replaced, tensors_in
from netcl.core.storage.data import TensorData

if TYPE_CHECKING:
    from netcl.core.engine.recording import Recording

# Arguments that a call writes into; it reads all others.
_WRITTEN = ("out",)
# Calls with effects beyond their results.
_KEPT = ("host_call",)


class CallLog(Interceptor):
    """The calls of one recording, in order. ``complete`` is False once a launch came from elsewhere."""

    layer = Layer.CALL_LOG

    def __init__(self, recording: Recording) -> None:
        self.thread: int | None = recording.thread
        self._recording = recording
        self._pool = recording.pool
        self._inside = False
        self._launches = self._marked = 0  # that are known to come from calls
        self._numbers: dict[int, int] = {}
        self._same: list[Any] = []  # the objects behind the numbers, held so that no other gets their identity
        self._versions: list[int] = []
        self._allocations: list[Any] = []  # by number: a weak reference, None for a tensor from outside
        self.outside: dict[int, Any] = {}
        self.begun: dict[int, int] = {}  # the version that each of these tensors had
        self.list: list[LoggedCall] = []
        self.parts: list[int] = []  # the numbers of the calls that begin the second and further parts
        self.complete: bool = True
        self.early: list[int] = []  # the tensors from outside that parts before the last one write

    def number(self, tensor: Any, fresh: bool = False) -> int:
        """Returns the number of the storage of a tensor; tensors from outside of the recording, not ``fresh``, are
        kept.
        """
        buffer = tensor.buffer  # first, as it materializes a deferred tensor
        allocation = tensor.pool_handle
        own = fresh if buffer is None else allocation is not None and allocation.pool is self._pool
        same: Any = tensor._storage if buffer is None else allocation if own else buffer
        number = self._numbers.get(id(same))
        if number is not None:
            ref = self._allocations[number]
            if (ref is not None) if not own or allocation is None else (ref is None or ref() is not allocation):
                number = None  # an allocation that has ended had this identity
        if number is None:
            number = self._numbers[id(same)] = len(self._same)
            self._same.append(None if own and allocation is not None else same)
            self._versions.append(0)
            self._allocations.append(weakref.ref(allocation) if own and allocation is not None else None)
            if not own:
                self.outside[number] = tensor.detach()
                self.begun[number] = tensor._storage.version
        return number

    def _ref(self, tensor: TensorData) -> Ref:
        number = self.number(tensor)
        return Ref(number, self._versions[number], tensor.shape, tensor.dtype)

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a call and logs it, unless it is made by another call or is not recorded."""
        if self._inside or engine.recording is None:
            return proceed(*args, **kwargs)
        if len(self._recording) != self._launches:
            self.complete = False
        reads: set[tuple[int, int]] = set()

        def read(tensor: TensorData) -> Ref:
            ref = self._ref(tensor)
            reads.add((ref.number, ref.version))
            return ref

        positional, named = replaced(args, read), replaced(kwargs, read)
        if name == "random":
            state = self._ref(engine.rng_state)
            reads.add((state.number, state.version))
        self._inside = True
        try:
            results = proceed(*args, **kwargs)
        finally:
            self._inside = False
        count, self._launches = self._launches, len(self._recording)
        kept = name in _KEPT or self._recording.marked != self._marked
        self._marked = self._recording.marked
        label = current()
        label_launches(self._recording, count, label)
        if self._launches == count:  # nothing to compute, or the first content of something persistent
            return results
        written = [ref.number for key in _WRITTEN for ref in tensors_in(named.get(key))]
        written += [positional[at].number for at in {"fill": (0,), "copy": (1,)}.get(name, ()) if at < len(positional)]
        fresh = [number for value in tensors_in(results) if (number := self.number(value, True)) not in written]
        for number in written:
            self._versions[number] += 1
        logged = replaced(results, self._ref)
        self.list.append(
            LoggedCall(name, positional, named, logged, frozenset(reads), frozenset((*written, *fresh)), kept, label)
        )
        return results

    def barrier(self) -> None:
        """Begins another part: passes over the log move no call from one part to another."""
        self.parts.append(len(self.list))
        self.early = self.written()
        self._recording.part()

    def finish(self) -> dict[int, Any]:
        """Ends the log and returns the allocations of tensors that are still referenced, by number."""
        if len(self._recording) != self._launches:
            self.complete = False
        allocations = ((number, ref and ref()) for number, ref in enumerate(self._allocations))
        return {number: allocation for number, allocation in allocations if allocation is not None}

    def written(self) -> list[int]:
        """Returns the numbers of the tensors from outside that the step writes."""
        return [number for number in self.outside if self._versions[number]]
