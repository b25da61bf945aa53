"""Capture and replay: a step is recorded once as a flat list of launches and then runs without Python per op.

``capture`` calls the function once with its launches recorded, not run; nothing on the device changes but persistent
tensors that the function makes at its first call (optimizer moments): they are filled at once. The recorded calls are
optimized (``core/capture/optimize.py``) and recorded again. A replay runs the launches on its inputs and on fresh
results (``exchange.py``), or on copies of both. Numbers that Python knows at capture (a branch taken, a float passed
to an op) are frozen; state that changes per step is stored in tensors: learning rates, step counts, random counters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from netcl.core.capture.call_log import CallLog
from netcl.core.capture.optimize import fused_parts
from netcl.core.capture.rerecord import rerecord
from netcl.core.engine.elsewhere import watching_elsewhere
from netcl.core.engine.interceptors import Interceptor, interception
from netcl.core.engine.lasting import LastingValues
from netcl.core.engine.profiler_sink import FlopCounter
from netcl.core.engine.recording import open_here
from netcl.core.engine.registry import ensure_same_backend
from netcl.core.errors import CaptureError, KernelBuildError
from netcl.core.graph.call import replaced, tensors_in
from netcl.core.ops_table.dispatch import assign
from netcl.core.process.hook_stack import settle
from netcl.core.storage.gradients import Shared
from netcl.core.storage.views import ViewStorage, is_of_the_program
from netcl.core.tensor import Tensor
from netcl.ops import random
from netcl.runtime.arguments import Arguments, has_inner_tensors, leaves
from netcl.runtime.dependencies import Dependencies
from netcl.runtime.exchange import Exchange

__all__ = ["CapturedStep", "Replay", "barrier", "capture", "is_capturing", "written_so_far"]


def _signature(args: tuple[Any, ...]) -> tuple[Hashable, ...]:
    """Returns shapes and dtypes of tensor arguments, and the others themselves: a replay must repeat them."""
    return tuple((arg.shape, arg.dtype) if isinstance(arg, Tensor) else _ByValue(arg) for arg in args)


class _ByValue:
    """An argument that is no tensor; equal to another one only if value and type are equal."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByValue) and type(other.value) is type(self.value) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def _settled(tensor: Tensor) -> Tensor:
    """Returns a result without its graph, since nothing will read its saved values; a view as it is at the end of the
    step, of what may have been written since it was made.
    """
    detached = tensor.detach()
    return _copy(detached) if isinstance(detached._storage, ViewStorage) else detached


def _copy(tensor: Tensor) -> Tensor:
    fresh = tensor.engine.empty(tensor.shape, tensor.dtype)
    assign(fresh, tensor)
    return fresh  # type: ignore[no-any-return]


class _Gradient:
    """The ``grad`` of a parameter before and after a step; None if there is none.

    A step that reads ``grad`` first uses the storage of ``before`` from then on, and a replay puts the newest gradient
    there. A step that begins with ``zero_grad`` may begin from any gradient; one that uses no gradient changes none.
    """

    def __init__(self, parameter: Tensor) -> None:
        self.parameter, self.before = parameter, parameter.grad
        self.after: Any = None
        self.used = False  # by the step, in whichever way
        self.read = False  # before it is set
        self.replaced = False  # a replay sets ``grad`` to ``after``
        self.copied = False  # a replay needs the gradient that is there in ``before``
        self.written = False  # in place
        self.count = 0  # of the writes into ``after``, or into ``before`` if it is written
        self._version = None if self.before is None else self.before._storage.version
        self._held: Any = parameter._grad  # the parameter's own field
        self._shared = self._held if type(self._held) is Shared else Shared(self._held)

    def watch(self) -> None:
        """Begins to watch the recorded step."""
        self.parameter._grad = self._shared
        self._shared.watch()

    def restore(self) -> None:
        """Puts the gradient back that was there before the recorded step."""
        self.parameter._grad = self._held
        self.parameter.grad = self.before

    def close(self, calls: CallLog) -> None:
        """Restores the parameter at the end of the recorded step."""
        before, use = self.before, self._shared.first_use
        self.after = self.parameter.grad
        self.restore()
        self.used, self.read = use is not None, use == "read"
        self.replaced = self.used and not (self.read and self.after is before)
        if isinstance(self.after, Tensor):
            self.count = self.after._storage.version - (self._version or 0 if self.after is before else 0)
        if not self.read or not isinstance(before, Tensor):
            return
        number = calls.number(before)
        self.written = before._storage.version != self._version and not self.replaced
        self.copied = self.written or not calls.complete
        self.copied = self.copied or any(number == read for call in calls.list for read, _ in call.reads)
        if self.copied and self.replaced and self.after is not None:
            assign(before, self.after)
            self.after = before

    def forget(self) -> None:
        """Lets go of the gradient of before the step if no replay compares with it or writes it."""
        if not self.read:
            self.before = self._held = None
            del self._shared

    def check(self) -> None:
        """Raises CaptureError if a replay would begin without a gradient and the recorded step did not, or reverse."""
        if (self.parameter.grad is None) is not (self.before is None):
            was, now_is = ("none", "one") if self.before is None else ("one", "none")
            raise CaptureError(
                f"replay: a parameter of shape {self.parameter.shape} had {was} of its gradients when the step was "
                f"captured and has {now_is} now; call zero_grad where the captured step did, or capture again"
            )

    def begin(self) -> Tensor | None:
        """Copies the gradient that a replay begins from to where its launches read it; returns the gradient if they
        write it in place.
        """
        now = self.parameter.grad
        if now is self.before or now is None:
            return None
        assign(self.before, now)
        return now if self.written else None


def _take_back(calls: CallLog) -> None:
    """Takes back the counts of writes in a recorded step: nothing has been written yet."""
    for number, version in calls.begun.items():
        storage = calls.outside[number]._storage
        if not isinstance(storage, ViewStorage):
            storage.version = version
            storage.invalidate_views()


class CapturedStep:
    """A recorded call of ``fn``: ``replay(*inputs)`` has the results and side effects of ``fn(*inputs)``."""

    def __init__(
        self,
        fn: Callable[..., Any],
        samples: tuple[Any, ...],
        watch: Callable[[], Hashable] | None = None,
        wait: bool = True,
        lasting: bool = False,
    ) -> None:
        settle("a capture")
        nested = any(has_inner_tensors(sample) for sample in samples)
        self._template = samples if nested else None
        flat = tuple(leaves(samples, samples)) if nested else samples
        self._signature = _signature(flat)
        self._dependencies = Dependencies(fn)
        self._watch = watch
        self._wait, self._lasting = wait, lasting
        self._key = self._state()
        tensors = list(tensors_in(samples))
        if not tensors:
            raise CaptureError(
                "capture: expected a tensor among the samples, got none; write capture(step, x) with a tensor x on the "
                "device to record"
            )
        self._engine: Any = ensure_same_backend(tensors, "capture")
        if self._engine.recording is not None:
            raise CaptureError("this thread captures a step on this device already; captures do not nest")
        call = tuple(replaced(sample, self._placeholder) for sample in samples)
        self._inputs = tuple(leaves(call, call)) if nested else call
        self._draws = random.StepDraws(self._engine)
        self._recording: Any = None
        self._gradients = [_Gradient(parameter) for parameter in self._dependencies.parameters()]
        self._kept: list[Any] = []
        self._exchange: Exchange | None = None
        self._fn = fn
        self._lock = threading.RLock()  # of the arguments of the launches
        self._replaying = False
        self._record(fn, call)
        self._arguments.check(flat, "capture")

    def _state(self) -> Hashable:
        return self._dependencies.key(), None if self._watch is None else self._watch()

    def _placeholder(self, sample: Tensor) -> Tensor:
        """Returns the tensor that replaces ``sample`` in the recorded call."""
        static = self._engine.empty(sample.shape, sample.dtype, persistent=True)
        static.requires_grad = sample.requires_grad
        assign(static, sample)
        return static  # type: ignore[no-any-return]

    def _record(self, fn: Callable[..., Any], call: tuple[Any, ...]) -> None:
        inputs = {at: static for at, static in enumerate(self._inputs) if isinstance(static, Tensor)}
        versions = {at: static._storage.version for at, static in inputs.items()}
        shared = {at: Shared(None) for at in inputs}
        for at, static in inputs.items():
            static._grad = shared[at]
            shared[at].watch()
        recording = self._engine.new_recording()
        calls = CallLog(recording)
        for gradient in self._gradients:
            gradient.watch()
        try:
            with self._recorded_into(recording, calls):
                with self._draws.recorded(), watching_elsewhere(self._engine, self._refuse_elsewhere):
                    result = fn(*call)
                graded = {at: static.grad for at, static in inputs.items() if static.grad is not None}
                self._result, self._made = replaced(result, _settled), replaced(list(graded.values()), _settled)
                del result
                for static in inputs.values():
                    static.grad = None
                for gradient in self._gradients:
                    gradient.close(calls)
            # A replay counts the writes in place of the step; a kernel of an engine may write without.
            self._counts = [max(calls.outside[n]._storage.version - calls.begun[n], 1) for n in calls.written()]
            self._finish(recording, calls)
        finally:
            for gradient in self._gradients:
                gradient.restore()
            _take_back(calls)
        used = bool(graded) or any(gradient.used for gradient in self._gradients)
        cleared = {at: shared[at].first_use in ("cleared", "set") for at in graded}
        self.written_early: list[Tensor] = [calls.outside[number] for number in calls.early]
        self._storages = self._dependencies.storages()
        self._arguments = Arguments(inputs, versions, cleared, calls, self._recording.pool, used)
        self._checked = [gradient for gradient in self._gradients if gradient.read]
        self._copied = [gradient for gradient in self._gradients if gradient.copied]
        self._replaced = [gradient for gradient in self._gradients if gradient.replaced]
        outside = {id(tensor._storage): tensor._storage for tensor in calls.outside.values()}
        self._views = [storage for storage in outside.values() if isinstance(storage, ViewStorage)]
        self._written = [calls.outside[number]._storage for number in calls.written()]
        self._exchange = self._exchanged() if calls.complete and not self._views else None
        for gradient in self._gradients:
            gradient.forget()
        for view in self._views:
            view.pinned = True
            view.invalidate()

    def _refuse_elsewhere(self, other: Any, name: str) -> None:
        raise CaptureError(
            f"capture: expected calls on {self._engine.device_label}, got {name!r} on {other.device_label}, which a "
            "replay would leave out; compute it before the step and pass the result, or capture a step for each device"
        )

    def _exchanged(self) -> Exchange | None:
        """Returns the buffers that replays exchange, None on NumPy."""
        if self._engine.name != "cl":
            return None
        inputs = [static for static in self._inputs if isinstance(static, Tensor)]
        after = [gradient.after for gradient in self._gradients if gradient.after is not None]
        return Exchange(self._recording, inputs, tensors_in([self._result, self._made]), self._written, after)

    @contextmanager
    def _recorded_into(self, recording: Any, *entries: Interceptor) -> Iterator[None]:
        recording.rng_state = self._draws.state
        self._engine.recording = recording
        try:
            with interception(self._engine, *entries, FlopCounter(recording, recording.thread)):
                yield
        finally:
            self._engine.recording = None

    def _finish(self, recording: Any, calls: CallLog) -> None:
        """Returns the recording, optimized and recorded again if all its launches come from known calls."""
        held = calls.finish()
        self._recording = recording
        if self._engine.name != "cl" or not calls.complete:
            return
        second = self._engine.new_recording()
        second.waits = self._wait
        second.lasting = self._lasting_values(calls) if self._lasting else None
        reads_only = not calls.written() and not any(gradient.used for gradient in self._gradients)
        try:
            with self._recorded_into(second):
                parts, made = fused_parts(self._engine, calls, held, second.lasting if reads_only else None)
                known = rerecord(self._engine, parts, {**calls.outside, **made}, held)
                moved = self._rebind(calls, known)
                for number, allocation in held.items():
                    if number in known and number not in moved:
                        # An unknown reference keeps this tensor alive: its storage gets the values too.
                        source = known[number]
                        old = Tensor._wrap(
                            self._engine, source.shape, source.dtype, allocation.buffer, None, allocation
                        )
                        assign(old, source)
                        self._kept.append(allocation)
        except KernelBuildError:
            return  # of a fused kernel: the unfused calls have been built
        self._recording = second

    def _lasting_values(self, calls: CallLog) -> LastingValues:
        """Returns the values that may be computed at the capture: of tensors that neither the step nor an array of the
        program writes.
        """
        varied = {*calls.written(), *(calls.number(static) for static in tensors_in(self._inputs))}
        sources = {
            number: tensor
            for number, tensor in calls.outside.items()
            if number not in varied and not isinstance(tensor._storage, ViewStorage) and not is_of_the_program(tensor)
        }
        return LastingValues(self._engine, sources)

    def _rebind(self, calls: CallLog, known: dict[int, Tensor]) -> set[int]:
        """Rebinds results and gradients to tensors of the second recording; returns their numbers."""
        moved: set[int] = set()

        def move(tensor: Tensor) -> Tensor:
            number = calls.number(tensor)
            if number in calls.outside or number not in known:
                return tensor
            moved.add(number)
            return known[number]._alias(tensor.shape)

        self._result, self._made = replaced(self._result, move), replaced(self._made, move)
        for gradient in self._gradients:
            if gradient.after is not None:
                gradient.after = move(gradient.after)
        return moved

    def replay(self, *inputs: Any) -> Any:
        """Runs the recorded launches on ``inputs`` (tensors of the captured shapes and dtypes, or host arrays for
        them).

        Raises CaptureError if the arguments or the state that the step depends on differ from the capture: capture
        again.
        """
        settle("a captured step")
        with self._lock:
            # The launches have their arguments now if a signal handler or a finalizer replays the step in a replay.
            if self._replaying or self._engine.recording is not None:
                return self._call(inputs)
            self._replaying = True
            try:
                flat = inputs if self._template is None else tuple(leaves(self._template, inputs))
                self._check(flat)
                return self._replay(flat)
            finally:
                self._replaying = False

    def _call(self, inputs: tuple[Any, ...]) -> Any:
        """Calls the function itself; its work runs at once, or is recorded into the step of this thread."""
        values = list(inputs)
        for at, static in enumerate(self._inputs if self._template is None else ()):
            if isinstance(static, Tensor) and not isinstance(values[at], Tensor):
                values[at] = self._engine.tensor(np.asarray(values[at]), static.dtype)
        return replaced(self._fn(*values), Tensor.detach)

    def _replay(self, inputs: tuple[Any, ...]) -> Any:
        replay = Replay(self)
        replay.take_gradients(whole=True)
        for static, value in zip(self._inputs, inputs):
            self._bind(static, value)
        replay.run(None)
        replay.end()
        if self._arguments.written:
            self._arguments.write_back(inputs)
        returned = replaced(self._result, replay.result)
        if self._made:
            self._arguments.set_gradients(inputs, replaced(self._made, replay.result))
        return returned

    def _bind(self, static: Any, value: Any) -> None:
        """Has the launches read ``value`` in the place of the captured argument ``static``."""
        if not isinstance(static, Tensor):
            return
        exchange = self._exchange
        if not isinstance(value, Tensor) or value.engine is not self._engine:
            static.write(value)
            if exchange is not None:
                exchange.read(static, static)
        elif exchange is None or not exchange.read(static, value):
            assign(static, value)

    # -- a replay in parts, which a caller begins and ends itself ------------------------------------------------------

    @property
    def parts(self) -> int:
        """The number of parts; 1 for a step that must be replayed as a whole."""
        return 1 if self._copied else len(self._recording.begins)

    @property
    def is_whole(self) -> bool:
        """True if the step writes into its arguments, or makes gradients of them: only ``replay`` does that."""
        return bool(self._arguments.written or self._made or self._template is not None)

    def results(self) -> list[Tensor]:
        """Returns the captured results, in the order of the function's."""
        return list(tensors_in(self._result))

    def begin(self) -> Replay:
        """Begins a replay in parts; ``check`` it before a result is used."""
        return Replay(self)

    def _check(self, inputs: tuple[Any, ...]) -> None:
        if len(inputs) != len(self._inputs):
            raise CaptureError(f"replay: {len(inputs)} arguments, the capture had {len(self._inputs)}")
        for number, (static, value, known) in enumerate(zip(self._inputs, inputs, self._signature)):
            if isinstance(static, Tensor):
                # Host arrays are converted as from_host would; only their shape must match.
                shape = value.shape if isinstance(value, Tensor) else tuple(getattr(value, "shape", ()))
                if shape != static.shape or (isinstance(value, Tensor) and value.dtype != static.dtype):
                    dtype = getattr(value, "dtype", type(value).__name__)
                    raise CaptureError(
                        f"replay: argument {number} has shape {shape} and dtype {dtype}, captured were {static.shape} "
                        f"and {static.dtype}; capture again for other shapes"
                    )
            elif _ByValue(value) != known:
                raise CaptureError(f"replay: argument {number} is {value!r}, captured was {known!r}; capture again")
        self._check_state()
        self._arguments.check(inputs)
        for gradient in self._checked:
            gradient.check()

    def _check_state(self) -> None:
        if self._state() != self._key:
            raise CaptureError(
                "replay: parameters, training flags, parameter groups, grad or autocast mode, or other watched state "
                "changed; capture again"
            )
        for tensor, storage in self._storages:
            if tensor._storage is not storage:
                raise CaptureError(
                    "replay: a tensor has been put on other memory, as by p.data = x; capture again, or write "
                    "p.data.copy_(x)"
                )

    @property
    def lasting_bytes(self) -> int:
        """The bytes of what the capture has computed from tensors that the step does not write, such as weights in the
        layout of a kernel. A replay computes it again after such a tensor was written.
        """
        return 0 if self._recording.lasting is None else self._recording.lasting.nbytes

    def __len__(self) -> int:
        """Returns the number of launches of a replay."""
        return len(self._recording)


class Replay:
    """One replay of a step: ``bind`` arguments before the part that reads them, ``run`` the parts in order, ``end``."""

    def __init__(self, step: CapturedStep) -> None:
        self._step = step
        self._added: list[tuple[_Gradient, Tensor]] = []
        for view in step._views:
            view.materialize()
        self._fresh: Mapping[int, Tensor] = {} if step._exchange is None else step._exchange.fresh()
        self._begun = step._draws.begin()

    def check(self) -> None:
        """Raises CaptureError as ``CapturedStep.replay`` does."""
        self._step._check_state()

    def take_gradients(self, whole: bool = False) -> None:
        """Begins from the gradients that are there now, before the first part that uses one; raises CaptureError as
        ``CapturedStep.replay`` does. ``whole``: nothing reads ``grad`` before the end of the replay.
        """
        step = self._step
        for gradient in step._checked:
            gradient.check()
        self._added = [(gradient, now) for gradient in step._copied if (now := gradient.begin()) is not None]
        for gradient in step._replaced:
            if not gradient.read and not (whole and gradient.parameter._grad is gradient.after):
                gradient.parameter.grad = None  # as the step does at its begin, so that others can use the memory

    def bind(self, at: int, value: Tensor) -> None:
        """Gives the argument at ``at``; raises CaptureError as ``CapturedStep.replay`` does."""
        self._step._arguments.check_one(at, value)
        self._step._bind(self._step._inputs[at], value)

    def run(self, part: int | None) -> None:
        """Runs the launches of a part, or all."""
        self._step._recording.replay(part)

    def result(self, tensor: Tensor) -> Tensor:
        """Returns the result of this replay in the place of a captured one, after the part that computes it."""
        return self._fresh[id(tensor)] if id(tensor) in self._fresh else _copy(tensor)

    def results(self) -> list[Tensor]:
        """Returns the captured results, in the order of the function's."""
        return self._step.results()

    def end(self) -> None:
        """Notes that all launches have run: what they have written, drawn and made as gradients."""
        step = self._step
        step._draws.end(self._begun)
        for storage, count in zip(step._written, step._counts):
            if isinstance(storage, ViewStorage):
                storage.invalidate()
            else:
                storage.version += count
                if storage.views is not None:
                    storage.invalidate_views()
        for gradient in step._replaced:
            after = gradient.after
            if gradient.parameter._grad is not after:
                gradient.parameter.grad = after
            if after is not None:
                after._storage.version = gradient.count  # with as many writes in place as the step has made
        versions = [now._storage.version for _, now in self._added]  # two gradients may be on one storage
        for (gradient, now), version in zip(self._added, versions):
            assign(now, gradient.before)
            now._storage.version = version + gradient.count


def barrier(engine: Any) -> None:
    """Ends a part of the step that this thread captures on ``engine``: ``CapturedStep.begin`` replays part by part."""
    for entry in engine.interceptors:
        if isinstance(entry, CallLog) and entry.thread == threading.get_ident():
            entry.barrier()


def written_so_far(engine: Any) -> dict[int, Tensor]:
    """Returns by number the tensors from outside that the step has written which this thread captures on ``engine``."""
    for entry in engine.interceptors:
        if isinstance(entry, CallLog) and entry.thread == threading.get_ident():
            return {number: entry.outside[number] for number in entry.written()}
    return {}


def is_capturing(tensors: Iterable[Tensor]) -> bool:
    """Returns True if this thread captures a step on the device of one of ``tensors``: ops on it are recorded."""
    return any(open_here(tensor.engine) is not None for tensor in tensors)


def capture(
    fn: Callable[..., Any], *samples: Any, watch: Callable[[], Hashable] | None = None, wait: bool = True
) -> CapturedStep:
    """Records ``fn(*samples)`` without running it; ``.replay(*inputs)`` then equals ``fn(*inputs)``, including side
    effects on tensors, also on ``inputs``. The results are tensors of their own, copies of arguments and states.

    ``samples`` are tensors (all on one device), tuples, lists and dicts of them, and other values, which a replay must
    repeat. A replay raises CaptureError if it would begin from another state: modules and optimizers that ``fn`` refers
    to (identities of parameters and buffers, requires_grad, training flags, parameter groups), present gradients that
    are missing or the reverse, grad and autocast mode, and the hashable of ``watch()``; or if arguments share memory
    that the step writes. Also raises CaptureError if ``fn`` reads a value on the host or writes host data to the
    device. After an exception in ``fn`` everything is as before.

    With ``wait=False`` a capture raises CaptureError if programs of the step are missing and child processes can build
    them. The attribute ``ready`` of the error is a function that returns True when they are built: capture again then.
    """
    return CapturedStep(fn, samples, watch, wait, lasting=True)
