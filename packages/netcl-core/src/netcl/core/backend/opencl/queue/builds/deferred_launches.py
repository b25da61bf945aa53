"""Defers launches until their programs are built, in the order of their calls.

The first launches of a process need one program after another, and each build takes as long as thousands of launches.
So a launch without a built program is noted with its arguments, and the host goes on; later launches wait behind it. At
the first copy, wait or read (``late_launches.enqueue``) all of them are enqueued in order: by then the programs of a
whole step are known, and this process and its children have built them at the same time.

Two rules keep the order. While a launch waits, the queue is in ``late_launches.waiting``, so every other use of its
memory enqueues it first. An entry leaves the deque only after it has been enqueued, so a launch or copy of any thread
sees it until then, and waits behind it. Entries hold the buffers that they read and write; their pool may give these to
later tensors, since the launches of those tensors come later on the same queue.

The first missing program is built at once, and only what follows before the next wait is deferred: a call never waits
here if its result is read before the next one.

A program that does not build must not become a wrong number. A launch is deferred only within an engine's call that the
interceptor ``NotedCalls`` sees: the call is computed again by a plainer kernel if there is one. If there is none, that
launch and all after it are dropped, KernelBuildError is raised at the wait for the launches, and each result of a
dropped call raises an error on use. Tensors that it would have written in place keep their values.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from threading import get_ident
from typing import Any, ClassVar, NamedTuple, Protocol
from weakref import ref

from netcl.core.backend.opencl.queue import shutdown
from netcl.core.backend.opencl.queue.builds.build_processes import WORTH_A_CHILD, Build, most_processes, processes_for
from netcl.core.backend.opencl.queue.builds.build_request import Argument, Launch
from netcl.core.backend.opencl.queue.fallback import WITH_A_PLAINER_KERNEL
from netcl.core.engine.interceptors import Interceptor, Layer, intercepted, recovered, refresh, tensors_in
from netcl.core.engine.recording import unrecorded
from netcl.core.errors import CaptureError, KernelBuildError
from netcl.core.process import late_launches
from netcl.core.storage.storage import Failed

_MOST = 4096  # launches that wait at most
_MOST_WITHOUT_CHILDREN = 64
_BUILT_IN_A_ROW = 256  # launches after which no more programs are expected to be missing
_MOST_HELD = 1 / 16  # of the device's memory, by tensors that calls keep

_SMALL_GRID = 65535  # work-items of an axis up to which PoCL compiles a kernel for few groups
_NOTHING_TO_BUILD = Build("", "", None)  # of a copy
_NOTHING_TO_BUILD.done = True

# One for all queues: work of one may wait for another.
_lock = threading.RLock()


class ProgramOwner(Protocol):
    """The attributes of a launcher that this module uses: its queue, its programs, and the profiler of its launches."""

    can_defer: ClassVar[bool]
    queue: Any
    device: Any
    programs: Any
    recording: Any
    sink: Any

    def has_program(self, source: str, options: str) -> bool: ...

    def program(self, source: str, options: str) -> Any: ...


class NotedCall:
    """A call of the engine with launches that wait."""

    def __init__(self, engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Only a call that has another kernel keeps its operands and results, to compute them again.
        self._call = (engine, name, args, kwargs) if name in WITH_A_PLAINER_KERNEL else None
        self._results: list[Any] = []
        self._given = [
            ref(tensor.pool_handle) for tensor in tensors_in((args, tuple(kwargs.values()))) if tensor.pool_handle
        ]
        self._made: list[tuple[ref[Any], ref[Any]]] = []
        # In bytes, which are kept from their pool.
        self.held = sum(tensor.nbytes for tensor in tensors_in(args)) if self._call else 0
        self.ended = False

    @classmethod
    def of_launch(cls, operands: Iterable[Any], result: Any) -> NotedCall:
        """Returns the call of one launch from ``operands`` to the fresh ``result``, without a plainer kernel."""
        call = cls.__new__(cls)
        call._call, call._results, call.held, call.ended = None, [], 0, False
        call._given = [ref(tensor._storage.allocation) for tensor in operands if tensor._storage.allocation]
        call._made = [(ref(result), ref(result._storage.allocation))]
        return call

    def end(self, results: Any) -> None:
        """Notes the tensors that the call returns."""
        tensors = list(tensors_in(results))
        self._made = [(ref(tensor), ref(tensor.pool_handle)) for tensor in tensors if tensor.pool_handle is not None]
        if self._call:
            self._results = [tensor._alias(tensor.shape) for tensor in tensors]
        self.ended = True

    def compute_again(self, error: KernelBuildError) -> None:
        """Computes the results of the call with a plainer kernel; raises ``error`` if there is none."""
        if self._call is None:
            raise error
        engine, name, args, kwargs = self._call
        try:
            again = recovered(engine, error, name, args, kwargs)
        except KernelBuildError:  # a call before this one may have turned to the plainer kernel already
            again = intercepted(engine, name, args, kwargs)
        for result, fresh in zip(self._results, tensors_in(again)):
            whole: dict[str, Any] = {"shape": (result.size,), "source_strides": (1,), "out_strides": (1,)}
            engine.copy(fresh, result, source_offset=0, out_offset=0, **whole)

    def fail(self, error: BaseException) -> None:
        """Makes the call's results, and all that share their memory, raise an error on use; its operands stay."""
        operands = [allocation() for allocation in self._given]
        for tensor, allocation in self._made:
            memory, result = allocation(), tensor()
            if memory is None or any(memory is operand for operand in operands):
                continue
            if result is not None:  # others on its memory say that it was released
                result._storage.deferred, result._storage.allocation = (Failed(error), 0), None
            memory.release()


class NotedCalls(Interceptor):
    """Notes the engine's calls while launches may be deferred; idle at all other times."""

    layer = Layer.FALLBACK

    def __init__(self, launches: DeferredLaunches) -> None:
        self._launches = launches

    @property
    def idle(self) -> bool:  # type: ignore[override]
        return not self._launches.armed

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        launches = self._launches
        launches.limit()
        try:
            with launches.noting(NotedCall(engine, name, args, kwargs)) as call:
                results = proceed(*args, **kwargs)
                call.end(results)
        except KernelBuildError as error:
            if getattr(error, "of_another_call", False):
                raise
            return recovered(engine, error, name, args, kwargs)
        return results


class _Entry(NamedTuple):
    """A launch or copy that waits: the function that enqueues it, its program, and its call."""

    run: Callable[[], object]
    build: Build
    call: NotedCall | None


class DeferredLaunches:
    """The launches of one queue that wait for their programs; thread-safe."""

    def __init__(self, launcher: ProgramOwner) -> None:
        self._launcher = launcher
        self._builds = processes_for(launcher.device)
        self._entries: deque[_Entry] = deque()
        self._known: dict[tuple[str, str, str], Build] = {}  # of the entries, see ``append``
        self._calls = threading.local()
        self._running: int | None = None  # the thread that enqueues an entry
        self._replacing: int | None = None  # the thread that computes calls again, ahead of waiting launches
        self._held = 0
        self._most_held = int(_MOST_HELD * launcher.device.global_mem_size)
        self.armed = False  # True from a missing program to the next wait, or to many launches with their programs
        self._built_in_a_row = 0  # launches outside of ``_enqueue`` that found their programs
        self.engines: list[Any] = []  # engines with noted calls

    @property
    def waits(self) -> bool:
        """True if launches wait, and this thread does not replace one of them."""
        return bool(self._entries) and self._replacing != get_ident()

    @property
    def is_enqueuing_here(self) -> bool:
        """True in a signal handler or a finalizer that interrupts this thread while it enqueues what has waited."""
        return self._running == get_ident()

    @cached_property
    def _compiles_at_launch(self) -> bool:
        return bool(self._launcher.programs.compiles_at_launch(self._launcher.device))

    def prepare(self) -> bool:
        """Starts children for the first programs if none has been built on this machine; returns True if it does."""
        if not (self._launcher.programs.is_empty and self._builds_elsewhere()):
            return False
        self._builds.prepare()
        return True

    def _builds_elsewhere(self) -> bool:
        launcher = self._launcher
        return launcher.can_defer and launcher.programs.shares(launcher.device) and most_processes(launcher.device) > 0

    def must_wait(self, source: str, options: str) -> bool:
        """Returns True if a launch of a program cannot be enqueued yet: others wait, or its program is missing."""
        if self._entries:
            return self.waits
        launcher = self._launcher
        if launcher.has_program(source, options):
            self._built_in_a_row += 1
            if self._built_in_a_row >= _BUILT_IN_A_ROW:
                self._disarm()
            return False
        self._built_in_a_row = 0
        if not self.armed:
            if launcher.sink is None and self._builds_elsewhere():
                with _lock:
                    self._arm(True)
            return False
        return launcher.sink is None and getattr(self._calls, "open", None) is not None

    def append(
        self,
        run: Callable[[], None],
        source: str,
        options: str,
        sizes: tuple[str, tuple[int, ...], tuple[int, ...] | None],
        arguments: Sequence[Any],
    ) -> None:
        """Defers the launch that ``run`` enqueues: ``sizes`` are the kernel's name, global and local size, and
        ``arguments`` buffers, NumPy scalars and local memory.
        """
        with _lock:
            self._arm(True)  # another thread may have enqueued all that waited before
            # A driver that compiles at the launch compiles each kernel of a program separately.
            key = source, options, sizes[0] if self._compiles_at_launch else ""
            build = self._known.get(key)
            if build is None:
                build = self._known[key] = Build(source, options, None)
                if self._launcher.has_program(source, options):
                    build.done = True
                else:
                    build.launch = self._first_launch(sizes, arguments)
                    self._builds.add(build)
            call = getattr(self._calls, "open", None)
            if call is not None and (not self._entries or self._entries[-1].call is not call):
                self._held += call.held
            self._entries.append(_Entry(run, build, call))
            if self._running is self._replacing is None:
                self._enqueue(self._is_built)
            if call is None:
                self.limit()

    def limit(self) -> None:
        """Enqueues the waiting launches if there are too many, or if their tensors take too much memory."""
        most = _MOST if self._builds.busy else _MOST_WITHOUT_CHILDREN
        if len(self._entries) >= most or self._held > self._most_held:
            self.enqueue()

    def launch_noted(
        self, launch: Callable[..., None], buffers: Sequence[Any], operands: Sequence[Any], result: Any
    ) -> bool:
        """Makes a prepared launch on ``buffers``, which reads ``operands`` and writes the fresh ``result``, as a noted
        call: behind the waiting ones, if there are any. Returns False if its program does not build.
        """
        self.limit()
        call = NotedCall.of_launch(operands, result)
        before = getattr(self._calls, "open", None)
        self._calls.open = call
        try:
            launch(*buffers)
        except KernelBuildError as error:
            if getattr(error, "of_another_call", False):
                raise
            return False
        finally:
            self._calls.open = before
        call.ended = True
        return True

    def append_copy(self, run: Callable[[], object]) -> None:
        """Defers a copy to the device behind the launches that wait."""
        with _lock:
            self._arm(True)
            self._entries.append(_Entry(run, _NOTHING_TO_BUILD, None))

    def enqueue(self) -> None:
        """Enqueues all launches that wait; see ``late_launches.enqueue``."""
        with _lock:
            if self._running is self._replacing is None:
                self._enqueue(self._build)
        self._disarm()

    def build(
        self,
        launches: Iterable[tuple[Any, Sequence[Any]]],
        early: Iterable[tuple[Any, Sequence[Any]]] = (),
        wait: bool = True,
    ) -> None:
        """Builds the missing programs of prepared launches, given with their buffers, together with the children. The
        kernels of ``early``, with programs of this process, are compiled too if the driver does so at a launch.

        With ``wait=False`` and several missing programs, leaves them to the children and raises a CaptureError.
        """
        if not self._builds_elsewhere():
            return
        missing = {}
        for prepared, buffers in early if self._compiles_at_launch else ():
            missing[prepared.source, prepared.options] = prepared, buffers
        for prepared, buffers in launches:
            if not self._launcher.has_program(prepared.source, prepared.options):
                missing[prepared.source, prepared.options] = prepared, buffers
        builds = []
        for (text, options), (prepared, buffers) in missing.items():
            passed = iter(buffers)
            arguments = [next(passed) if argument is None else argument for argument in prepared.args]
            sizes = prepared.name, prepared.global_size, prepared.local_size
            builds.append(Build(text, options, self._first_launch(sizes, arguments)))
        for build in builds:
            self._builds.add(build)
        if not wait and len(builds) >= WORTH_A_CHILD:
            error = CaptureError("programs of the step are not built yet; capture it when error.ready() is True")
            error.ready = partial(self._builds.are_built, builds)
            raise error
        for build in builds:
            self._build(build)

    @contextmanager
    def noting(self, call: NotedCall) -> Iterator[NotedCall]:
        """Makes launches of this thread within the block belong to ``call``."""
        before = getattr(self._calls, "open", None)
        self._calls.open = call
        try:
            yield call
        finally:
            self._calls.open = before

    def _disarm(self) -> None:
        """Notes no more calls, and leaves ``late_launches.waiting``, if no launch waits."""
        if self.armed:
            with _lock:
                if not self._entries:
                    self._arm(False)

    def _arm(self, armed: bool) -> None:
        """Sets ``armed``; the caller holds the lock."""
        if self.armed is not armed:
            self.armed = armed
            address = self._launcher.queue.int_ptr
            if armed:
                late_launches.waiting[address] = self.enqueue
            else:
                late_launches.waiting.pop(address, None)
            for engine in self.engines:
                refresh(engine)

    def _enqueue(self, built: Callable[[Build], bool]) -> None:
        """Enqueues waiting launches up to the first with a program not ``built``; the caller holds the lock."""
        with unrecorded(self._launcher):  # the waiting launches belong to other threads
            while self._entries:
                entry = self._entries[0]
                if not built(entry.build):
                    return
                if self._entries and self._entries[0] is entry:  # else a signal handler has enqueued it meanwhile
                    self._run(entry)
        self._known.clear()
        self._held = 0

    def _run(self, entry: _Entry) -> None:
        self._running = get_ident()
        try:
            entry.run()
        except BaseException as error:  # noqa: BLE001 (the launches after it must not be made)
            self._running, self._replacing = None, get_ident()
            self._recover(entry, error)
        else:
            self._entries.popleft()
        finally:
            self._running = self._replacing = None

    def _is_built(self, build: Build) -> bool:
        return build.done

    def _build(self, build: Build) -> bool:
        """Builds the program here if no child has begun it; returns True when it is built or is known not to build."""
        while not build.done:
            claimed = self._builds.claim(build) or self._builds.claim()
            if claimed is None:
                self._builds.wait(build)
                break
            self._compiled()
            with suppress(KernelBuildError):  # raised again by its launch
                self._launcher.program(claimed.source, claimed.options)
            claimed.done = True
        return True

    def _compiled(self) -> None:
        """Waits until this process has compiled its programs, so that it takes no more than children leave."""
        if self._builds.busy and self._compiles_at_launch:
            shutdown.interruptible_finish(self._launcher.queue, None)

    def _recover(self, entry: _Entry, error: BaseException) -> None:
        """Computes the call of a failed launch with another kernel, or drops the call and all waiting launches."""
        call = entry.call
        if call is not None and isinstance(error, KernelBuildError):
            if call.ended:
                with suppress(KernelBuildError):  # there is no plainer kernel
                    call.compute_again(error)
                    self._drop(call)
                    return
            else:  # its caller computes it again
                self._drop(call)
                raise error
        for dropped in self._entries:
            if dropped.call is not None:
                dropped.call.fail(error)
        self._entries.clear()
        vars(error)["of_another_call"] = True
        raise error

    def _drop(self, call: NotedCall) -> None:
        """Takes the launches of ``call`` off the front."""
        while self._entries and self._entries[0].call is call:
            self._entries.popleft()

    def _first_launch(
        self, sizes: tuple[str, tuple[int, ...], tuple[int, ...] | None], arguments: Sequence[Any]
    ) -> Launch | None:
        """Returns the launch at which the driver compiles the kernel; None if the program's build does."""
        if not self._compiles_at_launch:
            return None
        name, global_size, local_size = sizes
        if local_size is not None and max(global_size) <= _SMALL_GRID:
            global_size = local_size
        return Launch(name, tuple(global_size), local_size, tuple(map(_described, arguments)))


def _described(argument: Any) -> Argument:
    if hasattr(argument, "dtype"):
        return "number", argument.tobytes()
    return ("buffer" if hasattr(argument, "context") else "local"), int(argument.size)
