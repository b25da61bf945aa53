"""Launches all kernels, at once or into a recording.

API for the engine (one Launcher for each queue)::

    launcher = launcher_for(queue)                     the one of the queue: engine and KernelSpec share its recording
    launcher = Launcher(queue, programs=None)          programs: a ProgramCache, None: the shared one
    launcher.launch(source, kernel_name, global_size, local_size, args, options="")
    prepared = launcher.prepare(source, kernel_name, global_size, local_size, args, options="", kernel=None)
    prepared(*buffers)                                 later launches: only buffers change
    launcher.recording                                 None or the thread's open Recording; the engine's ``recording``
    launcher.new_recording() -> Recording              with an arena pool of its own
    launcher.guard(what)                               context manager: the driver's errors become netcl's
    launcher.call(function, what, requested)           the same, and once more with empty caches if out of memory
    launcher.wait(event), launcher.finish()            waits that SIGINT can interrupt, with the same errors
    launcher.launched                                  the names of the newest launches, for the watchdog

``args`` are cl.Buffers, tensors (their buffer), NumPy scalars, or other things a kernel takes (cl.LocalMemory). In
``prepare`` an argument None is a buffer given at each call.
Programs are known by their text and options. A launch with a zero in ``global_size`` does nothing.

Traps: ``program.name`` makes a new kernel at each use (a hundred microseconds and more), so kernels are kept. The
arguments belong to the kernel object: two threads sharing one give wrong numbers, seldom, and so does a signal handler
that launches it in the middle of a launch. So each launch takes a kernel without users, and a recorded launch has its
own. pyopencl takes 6.5 microseconds to set a NumPy scalar in the
general way, since it first tries all other kinds, and 0.1 when told that it is bytes. Each enqueue by pyopencl makes an
event, which must not be kept; ``event_free.py`` does without where that is faster. A driver that allocates lazily
reports a missing buffer here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from netcl.core import config
from netcl.core.backend.opencl.queue import shutdown
from netcl.core.backend.opencl.queue.builds.deferred_launches import DeferredLaunches
from netcl.core.backend.opencl.queue.event_free import without_event
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache, default_cache
from netcl.core.backend.opencl.queue.replays.launch_groups import Recorded
from netcl.core.backend.opencl.queue.replays.memory_accesses import accesses
from netcl.core.backend.opencl.queue.replays.replay import KernelRecording
from netcl.core.device import health
from netcl.core.device.drivers.kernel_objects import new_kernel
from netcl.core.device.drivers.quirks import needs_flush
from netcl.core.device.health import fault, forget_launches, is_fault, launch_log, state_of
from netcl.core.engine.profiler_sink import ProfilerSink, launch_record
from netcl.core.engine.recording import OpenRecordings, Recording
from netcl.core.errors import KernelBuildError, UnsupportedError
from netcl.core.expr.kernel_source import KernelSource
from netcl.core.memory.out_of_memory import is_out_of_memory, out_of_memory, release_cached
from netcl.core.memory.pools import PersistentBufferPool
from netcl.core.memory.regions import Regions, RetiredChunks, has_regions
from netcl.core.process import late_launches
from netcl.core.process.late_launches import waiting
from netcl.core.process.opencl import cl

Size = tuple[int, ...]
_SIZES_MAX = 64  # sizes of a kernel for which its launch without an event is kept, by thread


class Launcher(OpenRecordings):
    """Launches kernels on one in-order queue; thread-safe."""

    can_defer: ClassVar[bool] = True  # False: each program is built by the call that launches it

    def __init__(self, queue: Any, programs: ProgramCache | None = None) -> None:
        super().__init__()
        self.queue: Any = queue
        self.context: Any = queue.context
        self.device: Any = queue.device
        self.programs: ProgramCache = default_cache() if programs is None else programs
        self.sink: ProfilerSink | None = None
        self.launched = launch_log(queue)
        self.syncs: bool = config.get("SYNC")
        self.flushes: bool = self.syncs  # True if ``flush`` follows each launch
        self.state = state_of(queue.context)
        self._kernels: dict[tuple[str, str, str], list[tuple[Any, dict[Any, Any]]]] = {}  # without users
        self._programs: dict[Any, Any] = {}
        self.deferred = DeferredLaunches(self)
        self.retired = RetiredChunks()  # of the arenas of recordings that are gone

    def launch(
        self,
        source: str,
        kernel_name: str,
        global_size: Size,
        local_size: Size | None,
        args: Sequence[Any],
        options: str = "",
    ) -> None:
        """Launches ``kernel_name`` of the program, building it at first use; appends it instead while recording.
        ``local_size`` None leaves the choice to the driver.
        """
        if 0 in global_size:
            return
        for arg in args:  # now: it may launch this same kernel, before the arguments are set
            storage = getattr(arg, "_storage", None)
            if storage is not None and storage.deferred is not None:
                storage.materialize()
        local_size = self.fit(kernel_name, global_size, local_size)
        recording = self.recording if self.recordings else None
        if recording is not None:
            kernel = self._new_kernel(source, kernel_name, args, options)
            enqueue = partial(cl.enqueue_nd_range_kernel, self.queue, kernel, global_size, local_size)
            recording.append(enqueue, args, launch_record(kernel_name, args))
            recording.recorded[len(recording) - 1] = Recorded(accesses(source, kernel_name, args))
            if self.flushes:
                recording.append(self.flush_of(kernel_name))
            return
        if (waiting or not self._kernels.get((source, kernel_name, options))) and self.deferred.must_wait(
            source, options
        ):
            arguments = [_as_argument(kernel_name, index, arg) for index, arg in enumerate(args)]
            kernel_sizes = kernel_name, tuple(global_size), local_size
            later = partial(self._launch, source, *kernel_sizes, arguments, options)
            self.deferred.append(later, source, options, kernel_sizes, arguments)
            return
        self._launch(source, kernel_name, global_size, local_size, args, options)

    def _launch(
        self,
        source: str,
        kernel_name: str,
        global_size: Size,
        local_size: Size | None,
        args: Sequence[Any],
        options: str,
    ) -> None:
        """Launches now; the program is built if it is missing."""
        free = self._kernels.setdefault((source, kernel_name, options), [])
        try:
            taken = free.pop()
        except IndexError:
            taken = self._new_kernel(source, kernel_name, args, options), {}
        else:
            self._set(taken[0], enumerate(args))
        kernel, event_free = taken
        sizes = tuple(global_size), None if local_size is None else tuple(local_size)
        if sizes not in event_free:
            if len(event_free) >= _SIZES_MAX:
                event_free.clear()
            event_free[sizes] = without_event(self.queue, kernel, *sizes)
        self._enqueue(kernel, kernel_name, global_size, local_size, args, event_free[sizes])
        free.append(taken)

    def prepare(
        self,
        source: str,
        kernel_name: str,
        global_size: Size,
        local_size: Size | None,
        args: Sequence[Any],
        options: str = "",
        kernel: KernelSource | None = None,
    ) -> PreparedLaunch:
        """Returns a launch with fixed sizes and scalars; ``args`` has None for each buffer that the call passes. With
        ``kernel``, the parts of a generated text, a recording may merge the launch with others.
        """
        return PreparedLaunch(self, source, kernel_name, global_size, local_size, args, options, kernel)

    def fit(self, kernel_name: str, global_size: Size, local_size: Size | None) -> Size | None:
        """Returns the work-group size for ``kernel_name``; UnsupportedError if a ``capability_mask`` refuses it."""
        return local_size

    def new_recording(self) -> Recording:
        """Returns a Recording for this thread, with an arena pool on this queue; the engine opens and closes it."""
        self.free_retired()
        regions = Regions() if has_regions(self.queue) else None
        if regions is not None:
            self.retired.follow(regions)
        pool = PersistentBufferPool(self.context, self.queue, drops=False, regions=regions)
        return KernelRecording(pool=pool, guard=self.guard, launched=self.launched, owner=self)

    def check(self) -> None:
        """Raises ForkedProcessError in a forked child, DeviceLostError once the device is lost."""
        health.check_process()
        self.state.check()

    def wait(self, event: Any, by_finishing: bool = False) -> None:
        """Waits for a cl.Event of this queue (None: returns); ``by_finishing``: a long wait is for the queue."""
        with self.guard("a wait"):
            shutdown.wait_for(event, self.queue if by_finishing else None)
        self.free_retired()

    def free_retired(self) -> None:
        """Frees the memory of recordings that are gone, after a wait for the work that may use it."""
        if self.retired:
            self.finish()

    def finish(self) -> None:
        """Waits for all work on the queue, and frees the memory that only this work used."""
        with self.guard("a wait"):
            self.retired.free(partial(shutdown.interruptible_finish, self.queue, None))

    def forget_launches(self, count: int) -> None:
        """Removes the oldest ``count`` of ``launched``, after a wait for them."""
        forget_launches(self.launched, count)

    @contextmanager
    def guard(self, what: str = "a replay", requested: int = 0) -> Iterator[None]:
        """Translates the driver's errors within the block to OutOfMemoryError, DeviceError or RuntimeError."""
        self.check()
        late_launches.enqueue()
        try:
            yield
        except cl.Error as error:
            raise self.translate(error, what, requested) from error

    def call(self, function: Callable[[], Any], what: str, requested: int = 0) -> Any:
        """Returns ``function()``, an OpenCL call of ``requested`` bytes; without memory again, with empty caches."""
        self.check()
        late_launches.enqueue()
        try:
            return function()
        except cl.Error as error:
            if not is_out_of_memory(error):
                raise self.translate(error, what, requested) from error
        with self.guard(what, requested):
            self.queue.finish()
            release_cached(self.context)
            return function()

    def translate(self, error: Any, what: str, requested: int = 0) -> Exception:
        """Returns netcl's error for a cl.Error in ``what``, a launch, a copy of ``requested`` bytes or a wait."""
        if is_fault(error):
            return fault(self.context, what, error)
        if is_out_of_memory(error):
            return out_of_memory(self.context, requested)
        device = f"{str(self.device.name).strip()} ({str(self.device.platform.name).strip()})"
        return RuntimeError(f"{what} failed on {device}: {error}")

    def has_program(self, source: str, options: str) -> bool:
        """True if ``program`` need not build it."""
        is_built = (source, options) in self._programs
        return is_built or self.programs.has(self.context, source, self.device, options)

    def program(self, source: str, options: str) -> Any:
        """Returns the program of a text, built at its first use; raises KernelBuildError if it does not build."""
        program = self._programs.get((source, options))
        if program is None:
            program = self.programs.get_program(self.context, source, self.device, options)
            self._programs[source, options] = program
        return program

    def _new_kernel(self, source: str, kernel_name: str, args: Sequence[Any] | None, options: str) -> Any:
        self.check()
        program = self.program(source, options)
        try:
            kernel = new_kernel(program, kernel_name)
        except cl.Error as error:
            log = f"there is no kernel {kernel_name!r} in the program"
            names = str(self.device.name).strip(), f"{str(self.device.platform.name).strip()}"
            raise KernelBuildError(source, options, log, *names, op=kernel_name) from error
        if args is not None:
            if kernel.num_args != len(args):
                raise UnsupportedError(f"kernel {kernel_name}: expected {kernel.num_args} arguments, got {len(args)}")
            self._set(kernel, enumerate(args))
        return kernel

    def _set(self, kernel: Any, numbered: Iterable[tuple[int, Any]]) -> None:
        try:
            _set_arguments(kernel, numbered)
        except cl.Error as error:
            what = f"an argument of kernel {kernel.function_name}"
            if is_fault(error) or is_out_of_memory(error):
                raise self.translate(error, what) from error
            raise UnsupportedError(f"{what} is of the wrong size or kind: {error}", op=kernel.function_name) from error

    def _enqueue(
        self,
        kernel: Any,
        kernel_name: str,
        global_size: Size,
        local_size: Size | None,
        args: Sequence[Any],
        event_free: Callable[[], None] | None = None,
    ) -> None:
        """Enqueues the launch, by ``event_free`` unless a profiler needs the event."""
        if health.closed or self.state.lost is not None:
            self.check()
        self.launched.append(kernel_name)
        sink = self.sink
        began = 0.0 if sink is None else perf_counter()
        event = None
        try:
            if event_free is not None and sink is None:
                event_free()
            else:
                event = cl.enqueue_nd_range_kernel(self.queue, kernel, global_size, local_size)
        except cl.Error:
            event = self.enqueue_again(kernel, kernel_name, global_size, local_size)
        if self.flushes:
            self.flush(kernel_name)
        if sink is not None:
            sink.kernel(began, event, kernel_name, args)

    def flush(self, kernel_name: str) -> None:
        """Submits the launch of a kernel; with NETCL_SYNC=1 waits for it, and an error names it."""
        if not self.syncs:
            self.queue.flush()
            return
        with self.guard(f"kernel {kernel_name}"):
            self.queue.finish()

    def flush_of(self, kernel_name: str) -> Callable[[], None]:
        """Returns the function that a recording calls after the launch of a kernel."""
        return partial(self.flush, kernel_name) if self.syncs else self.queue.flush

    def enqueue_again(self, kernel: Any, kernel_name: str, global_size: Size, local_size: Size | None) -> Any:
        """Enqueues a launch that the driver has refused again: twice if out of memory, then netcl's error is raised."""
        what = f"kernel {kernel_name} with global size {global_size} and local size {local_size}"
        return self.call(lambda: cl.enqueue_nd_range_kernel(self.queue, kernel, global_size, local_size), what)


class Taken(NamedTuple):
    """A kernel of a prepared launch while a call uses it, with its bound ``set_arg`` (binding takes 0.05 microseconds)
    and its launch without an event (None if pyopencl's is faster).
    """

    kernel: Any
    set_arg: Callable[[int, Any], None]
    event_free: Callable[[], None] | None


class PreparedLaunch:
    """A kernel with its sizes and scalars set: ``prepared(*buffers)`` sets the buffers, in order, and launches.

    A buffer is a cl.Buffer or a tensor, or the NumPy scalar of a number that changes from call to call. A call takes a
    kernel object from ``kernels`` and puts it back when it has been enqueued, so that neither another thread nor a
    finaliser in the middle of the call sets its arguments.
    """

    __slots__ = (
        "_build",
        "_launcher",
        "args",
        "global_size",
        "kernel",
        "kernels",
        "local_size",
        "name",
        "options",
        "positions",
        "source",
    )

    def __init__(
        self,
        launcher: Launcher,
        source: str,
        kernel_name: str,
        global_size: Size,
        local_size: Size | None,
        args: Sequence[Any],
        options: str = "",
        kernel: KernelSource | None = None,
    ) -> None:
        self._launcher = launcher
        self.kernel: KernelSource | None = kernel
        self.name: str = kernel_name
        self.source: str = source
        self.options: str = options
        self.global_size: tuple[int, ...] = tuple(global_size)
        local_size = launcher.fit(kernel_name, global_size, local_size)
        self.local_size: tuple[int, ...] | None = None if local_size is None else tuple(local_size)
        self.args: tuple[Any, ...] = tuple(args)
        self.positions: tuple[int, ...] = tuple(index for index, arg in enumerate(args) if arg is None)
        self._build = partial(launcher._new_kernel, source, kernel_name, None, options)
        self.kernels: list[Taken] = []

    def __call__(self, *buffers: Any) -> None:
        if len(buffers) != len(self.positions):
            raise UnsupportedError(f"kernel {self.name}: expected {len(self.positions)} buffers, got {len(buffers)}")
        launcher = self._launcher
        recording = launcher.recording if launcher.recordings else None
        if recording is not None:
            self._record(recording, buffers)
            return
        if waiting or not self.kernels:
            for position, buffer in zip(self.positions, buffers):
                _as_argument(self.name, position, buffer)  # computing a tensor here may defer launches
            if launcher.deferred.must_wait(self.source, self.options):
                self._defer(buffers)
                return
        self._launch(buffers)

    def _launch(self, buffers: Sequence[Any], in_turn: bool = False) -> None:
        """Launches now, unless computing a tensor here has made launches wait; ``in_turn`` if this one has waited."""
        launcher = self._launcher
        taken = self.kernels.pop() if self.kernels else self.take()
        kernel, set_arg, event_free = taken
        for position, buffer in zip(self.positions, buffers):
            if type(buffer) is not _Buffer and not isinstance(buffer, np.generic):
                storage = buffer._storage
                allocation = storage.allocation
                if storage.deferred is not None or (allocation is not None and allocation.buffer is None):
                    buffer = _buffer_of(buffer, self.name, position)
                else:
                    buffer = storage.buffer
            set_arg(position, buffer)
        if waiting and not in_turn and launcher.deferred.waits:
            self._defer(buffers)
        else:
            launcher._enqueue(kernel, self.name, self.global_size, self.local_size, buffers, event_free)
        self.kernels.append(taken)

    def _defer(self, buffers: Sequence[Any]) -> None:
        args = list(self.args)
        for position, buffer in zip(self.positions, buffers):
            args[position] = _as_argument(self.name, position, buffer)
        sizes = self.name, self.global_size, self.local_size
        later = partial(self._launch, [args[position] for position in self.positions], True)
        self._launcher.deferred.append(later, self.source, self.options, sizes, args)

    def take(self) -> Taken:
        """Returns a kernel without other users, its scalars set; it goes back to ``kernels``."""
        try:
            return self.kernels.pop()
        except IndexError:
            kernel = self.new_kernel()
            event_free = without_event(self._launcher.queue, kernel, self.global_size, self.local_size)
            return Taken(kernel, kernel.set_arg, event_free)

    def new_kernel(self) -> Any:
        """Returns a kernel of its own, its scalars set."""
        kernel = self._build()
        if kernel.num_args != len(self.args):
            raise UnsupportedError(f"kernel {self.name}: expected {kernel.num_args} arguments, got {len(self.args)}")
        fixed = [(index, arg) for index, arg in enumerate(self.args) if arg is not None]
        self._launcher._set(kernel, fixed)
        return kernel

    def _record(self, recording: Recording, buffers: Sequence[Any]) -> None:
        args = list(self.args)
        for position, buffer in zip(self.positions, buffers):
            args[position] = buffer
        device_buffers = [getattr(buffer, "buffer", buffer) for buffer in buffers]
        recorded = Recorded(accesses(self.source, self.name, args), self, device_buffers)
        enqueue: Callable[[], Any]
        if recording.merges and recorded.kernel is not None and not self._launcher.flushes:
            enqueue = partial(self, *device_buffers)  # if it becomes part of another launch, nothing has to be built
        else:
            if recording.merges and not self._launcher.has_program(self.source, self.options):
                recording.built_early(self, device_buffers)
            kernel, queue = self.new_kernel(), self._launcher.queue
            self._launcher._set(kernel, zip(self.positions, buffers))
            enqueue = partial(cl.enqueue_nd_range_kernel, queue, kernel, self.global_size, self.local_size)
        recording.append(enqueue, args, launch_record(self.name, buffers))
        recording.recorded[len(recording) - 1] = recorded
        if self._launcher.flushes:
            recording.append(self._launcher.flush_of(self.name))


_launchers: dict[int, Launcher] = {}
_launchers_lock = threading.RLock()


def launcher_for(queue: Any, kind: Callable[[Any], Launcher] | None = None) -> Launcher:
    """Returns the Launcher of a cl.CommandQueue, made at first use (by ``kind`` if not None); the queue is then
    finished at exit.

    On a device that needs it (a probe, once per driver version) the queue is flushed after each kernel.
    """
    with _launchers_lock:
        launcher = _launchers.get(queue.int_ptr)
        if launcher is None:
            candidate = (kind or Launcher)(queue)
            candidate.deferred.prepare()  # children start while the device is tried
            candidate.flushes = candidate.syncs or needs_flush(queue.device)
            launcher = _launchers.setdefault(queue.int_ptr, candidate)  # a signal handler may have made it
            shutdown.register_queue_for_cleanup(queue)
        return launcher


_Buffer = cl.Buffer if cl is not None else None


def _set_arguments(kernel: Any, numbered: Iterable[tuple[int, Any]]) -> None:
    set_arg = kernel.set_arg
    scalars: list[Any] = []
    for index, arg in numbered:
        if type(arg) is _Buffer:
            set_arg(index, arg)
        elif isinstance(arg, np.generic):
            scalars.append(index)
            scalars.append(arg)
        else:
            set_arg(index, _as_argument(kernel, index, arg))
    if scalars:
        kernel._set_arg_buf_multi(tuple(scalars))


def _as_argument(kernel: Any, index: int, arg: Any) -> Any:
    """Returns argument ``index`` of a kernel (its name or object) in the driver's form."""
    if isinstance(arg, np.generic):
        return arg
    # None would be set as a null pointer, and a kernel that follows it ends the process.
    if hasattr(arg, "_storage"):
        argument = _buffer_of(arg, kernel, index)
    else:
        argument = getattr(arg, "buffer", arg)  # of an allocation
    if argument is None or isinstance(argument, (bool, int, float, np.ndarray)):
        raise UnsupportedError(
            f"argument {index} of kernel {_name(kernel)} is {arg!r}; "
            "expected a buffer, an OpenCL tensor or a NumPy scalar such as np.int32(3)"
        )
    return argument


def _buffer_of(tensor: Any, kernel: Any, index: int) -> Any:
    """Returns the buffer of a tensor, argument ``index`` of a kernel (its name or object; the name is read only for an
    error). Raises UnsupportedError if the allocation has ended.
    """
    storage = tensor._storage
    if storage.deferred is not None:
        storage.materialize()
        storage = tensor._storage
    allocation = storage.allocation
    if allocation is not None and allocation.buffer is None:
        raise released(_name(kernel), index)
    return storage.buffer


def _name(kernel: Any) -> str:
    return kernel if isinstance(kernel, str) else str(kernel.function_name)


def released(name: str, index: int) -> UnsupportedError:
    """Returns the error for a tensor without its allocation: the buffer may be another tensor's by now."""
    return UnsupportedError(
        f"argument {index} of kernel {name} is a tensor with a released buffer; "
        "drop a tensor (del t) instead of releasing its pool_handle",
        op=name,
    )
