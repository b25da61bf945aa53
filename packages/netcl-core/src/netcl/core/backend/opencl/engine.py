"""Implements the calls of the waist on one OpenCL command queue, by transfers, launches and kernels."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core import config
from netcl.core.backend import host_call
from netcl.core.backend.forwarding import ForwardedCalls, KernelModules, flags
from netcl.core.backend.opencl.contraction import conv, gemm
from netcl.core.backend.opencl.expressions import multi_tensor, run
from netcl.core.backend.opencl.expressions.describe import describe
from netcl.core.backend.opencl.expressions.relaxed import Relaxed, relaxed
from netcl.core.backend.opencl.kernels import random, resample
from netcl.core.backend.opencl.kernels.copies import border, copy
from netcl.core.backend.opencl.kernels.indexing import index
from netcl.core.backend.opencl.kernels.packed_products import packed
from netcl.core.backend.opencl.kernels.recurrences import ctc, recurrence
from netcl.core.backend.opencl.kernels.scans import scan
from netcl.core.backend.opencl.kernels.selections import compaction
from netcl.core.backend.opencl.kernels.softmax_attention import attention, cached_attention
from netcl.core.backend.opencl.kernels.sorts import sort
from netcl.core.backend.opencl.kernels.sparse_products import sparse
from netcl.core.backend.opencl.kernels.windows import window
from netcl.core.backend.opencl.queue.builds.deferred_launches import NotedCalls
from netcl.core.backend.opencl.queue.fallback import KernelFallback
from netcl.core.backend.opencl.queue.launch import Launcher, launcher_for
from netcl.core.backend.opencl.queue.shutdown import install_sigint_handler
from netcl.core.backend.opencl.queue.transfer import DeviceTransfer, Transfer
from netcl.core.backend.opencl.templates import traits
from netcl.core.device.capabilities import profile_of
from netcl.core.device.discovery import DeviceHandle
from netcl.core.dtypes import SIZES, from_bfloat16, itemsize, numpy_dtype
from netcl.core.engine.interceptors import push_interceptor
from netcl.core.engine.product import Copies, Product
from netcl.core.engine.protocol import Described, HostTransfer, KernelText
from netcl.core.engine.recording import Recording, host_read_allowed, open_here, rng_state_here, unrecorded
from netcl.core.errors import BackendMismatchError, DTypeError, UnsupportedError
from netcl.core.expr.schedule import Target
from netcl.core.memory.queue_pools import BufferHandle, PersistentBufferPool, get_persistent_pool, opencl_queue
from netcl.core.ops_table.program import Program
from netcl.core.process import late_launches
from netcl.core.process.poison import PATTERN
from netcl.core.storage.data import TensorData, TensorT
from netcl.core.storage.host import to_storage
from netcl.core.storage.storage import Storage, Upload
from netcl.core.tensor.tensor import Tensor
from netcl.core.tuning.matrix_units import try_ahead

if TYPE_CHECKING:
    from netcl.core.engine.profiler_sink import ProfilerSink

Array = np.ndarray[Any, Any]


_SIGNALS = 1 << 15  # words at least


class _HostMemory:
    """A mapped buffer as the base of an array: both the mapping and the allocation live as long as the array."""

    def __init__(self, mapped: Array, storage: Storage) -> None:
        self._kept = mapped, storage
        self.__array_interface__ = mapped.__array_interface__


class OpenCLBackend(ForwardedCalls):
    """The engine of a command queue (in order); making the first one installs the SIGINT handler and the exit hook."""

    name = "cl"
    kernel_modules: KernelModules = KernelModules(
        run,
        multi_tensor,
        gemm,
        conv,
        window,
        index,
        random,
        copy,
        border,
        resample,
        scan,
        sort,
        compaction,
        ctc,
        recurrence,
        attention,
        sparse,
        packed,
        cached_attention,
        host_call,
    )

    def __init__(self, queue: Any = None) -> None:
        self.queue: Any = opencl_queue(queue)
        self.context: Any = self.queue.context
        device = self.queue.device
        names = device.platform.name.strip(), device.name.strip()
        self.device_label: str = f"{names[1]} ({names[0]})"
        self.handle: DeviceHandle = DeviceHandle(
            *names, "cl", profile_of(self.queue).device_type, self.context, self.queue
        )
        # The trial of a CPU's vectors runs in a child process, and the trial of the order of kernels here at the same
        # time.
        if profile_of(self.queue).is_cpu:
            threading.Thread(target=traits, args=(self,), daemon=True).start()
        self.launcher: Launcher = launcher_for(self.queue)
        if self.launcher.deferred.prepare():
            threading.Thread(target=try_ahead, args=(profile_of(self.queue),), daemon=True).start()
        self.launch = self.launcher.launch
        self.transfer: Transfer = Transfer(self.launcher)
        self.pool: PersistentBufferPool = get_persistent_pool(self.queue)
        seen = traits(self)
        self.target: Target = run.target_of(seen.is_cpu, seen.vector, device.max_compute_units, seen.group)
        self.build_options: str = run.exact_options(device, seen.is_cpu)
        self.plans: dict[Any, Any] = {}
        self._has_fp64 = profile_of(self.queue).has_fp64
        self._flag: BufferHandle | None = None
        self._flag_raised = False
        self._signals: dict[int, Tensor] = {}
        self._rng_state: Tensor | None = None
        self._lock = threading.RLock()
        self._poisons: bool = config.get("POISON")
        self.override_pools: dict[int, Any] = {}  # the pool of a thread's new tensors, if it is not the queue's
        push_interceptor(self, KernelFallback())
        push_interceptor(self, NotedCalls(self.launcher.deferred))
        self.launcher.deferred.engines.append(self)
        install_sigint_handler()

    # -- the transport of the contract, on buffers ---------------------------------------------------------------------

    def from_host(
        self, data: Any, dtype: str = "float32", async_copy: bool | None = None, use_pinned: bool | None = None
    ) -> tuple[Any, Any, Any, Array | None]:
        """Returns (buffer, event, pending_release, host_ref). On a device with shared memory the buffer uses ``data``
        itself if dtype and alignment allow it (``host_ref`` keeps it alive), else it is a copy.
        """
        storage, _ = to_storage(data, dtype)
        self._check_dtype(dtype)
        shared = self.transfer.zero_copy(storage) if storage is data else None
        if shared is not None:
            return shared[0], None, None, shared[1]
        (buffer, _, handle), event, pending, host_ref = self.upload(
            storage,
            dtype,
            async_copy=async_copy,
            use_pinned=use_pinned,
            copy=True,
            persistent=False,
            private=storage is not data,
        )
        return buffer, event, handle if pending is None else pending, host_ref

    def from_shape(
        self, shape: Sequence[int], dtype: str = "float32", pool: Any = None, fill: float | None = 0
    ) -> tuple[Any, BufferHandle]:
        """Returns (buffer, allocation) of a new buffer for ``shape``, filled with ``fill`` unless it is None."""
        tensor = self.empty(tuple(shape), dtype, pool=pool)
        if fill is not None:
            self.fill(tensor, fill)
        return tensor._storage.buffer, tensor.pool_handle

    def to_host(self, storage: Any, shape: Sequence[int], dtype: str) -> Array:
        """Returns the content of a buffer as an array of the storage dtype, after all work before."""
        self._check_read()
        out: Array = np.empty(tuple(shape), numpy_dtype(dtype))
        self.transfer.download(storage, out)
        self._check_flag()
        return out

    def to_host_async(self, storage: Any, shape: Sequence[int], dtype: str) -> tuple[Array, Any]:
        """Starts the copy of ``to_host`` and returns (array, event); the array is valid when the event is complete."""
        self._check_read()
        out: Array = np.empty(tuple(shape), numpy_dtype(dtype))
        return out, self.transfer.download_async(storage, out)

    def _check_read(self) -> None:
        """Raises CaptureError if this thread records, RuntimeError if it enqueues launches that have waited."""
        host_read_allowed(self)
        if self.launcher.deferred.is_enqueuing_here:
            raise RuntimeError(
                "a signal handler or a finalizer reads a value in the middle of a launch of a first step, before the "
                "value is computed; note the signal, and read after the step, or set NETCL_BUILD_PROCESSES=0"
            )

    def wait(self, event: Any = None) -> None:
        """Waits for ``event`` (None: nothing pending) and raises what the device has reported."""
        self.launcher.wait(event)
        self.transfer.let_go()
        self._check_flag()

    def reshape(self, storage: Any, shape: Sequence[int]) -> Any:
        """Returns the same buffer: buffers have no shape."""
        return storage

    # -- tensors -------------------------------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: str, *, persistent: bool = False, pool: Any = None) -> Any:
        shape = tuple(shape)
        self._check_dtype(dtype)
        recording = None
        if pool is None:
            launcher = self.launcher
            recording = None if persistent or not launcher.recordings else launcher.recording
            pool = self.pool if recording is None else recording.pool
            if self.override_pools and recording is None and not persistent:
                pool = self.override_pools.get(threading.get_ident(), pool)
        else:
            self._check_pool(pool)
        size = SIZES.get(dtype) or itemsize(dtype)
        allocation = pool.allocate(math.prod(shape) * size, None, (shape, dtype))
        tensor = Tensor._wrap(self, shape, dtype, allocation.buffer, None, allocation)
        if persistent:
            tensor.persistent = allocation.keep = True
        if self._poisons:
            with nullcontext() if recording is not None else unrecorded(self):
                self.transfer.fill(tensor, allocation.bucket_size, PATTERN, allocation.bucket_size)
        return tensor

    @contextmanager
    def allocating_from(self, pool: Any) -> Iterator[None]:
        """Makes this thread's new tensors within the block come from ``pool``, unless a recording allocates them."""
        self._check_pool(pool)
        thread = threading.get_ident()
        before = self.override_pools.get(thread)
        self.override_pools[thread] = pool
        try:
            yield
        finally:
            if before is None:
                del self.override_pools[thread]
            else:
                self.override_pools[thread] = before

    def _check_dtype(self, dtype: str) -> None:
        if dtype == "float64" and not self._has_fp64:
            raise DTypeError(f"{self.device_label} has no float64 (cl_khr_fp64); use float32, or the cpu device")

    def _check_pool(self, pool: Any) -> None:
        if not hasattr(pool, "allocate"):
            raise TypeError(f"expected pool to be a BufferPool or a PersistentBufferPool, got {type(pool).__name__}")
        if pool.context != self.context or getattr(pool, "queue", self.queue) != self.queue:
            raise BackendMismatchError(
                f"the {type(pool).__name__} given belongs to another queue or context than {self.device_label}; "
                "take get_persistent_pool(queue), or a BufferPool of the queue's context"
            )

    def tensor(self, data: Array, dtype: str, *, persistent: bool = False) -> Any:
        storage, _ = to_storage(data, dtype) if data.dtype != numpy_dtype(dtype) else (data, dtype)
        self.forbid_upload()
        tensor = self.empty(storage.shape, dtype, persistent=persistent)
        tensor._storage.upload = Upload(*self.transfer.upload(tensor._storage.buffer, storage))
        return tensor

    def upload(
        self,
        data: Array,
        dtype: str,
        *,
        async_copy: bool | None,
        use_pinned: bool | None,
        copy: bool,
        persistent: bool,
        private: bool = False,
    ) -> tuple[tuple[Any, Any, Any], Any, Any, Array | None]:
        """Returns storage with ``data``: (buffer, array, allocation), event, pending release, read or aliased array."""
        self.forbid_upload()
        self._check_dtype(dtype)
        shared = None if copy else self.transfer.zero_copy(data)
        if shared is not None:
            return (shared[0], None, self.transfer.adopt_shared(shared[0], data.nbytes)), None, None, shared[1]
        target = self.empty(data.shape, dtype, persistent=persistent)
        event, pending, host_ref = self.transfer.upload(
            target._storage.buffer, data, private=private, async_copy=async_copy, use_pinned=use_pinned
        )
        return (target._storage.buffer, None, target.pool_handle), event, pending, host_ref

    def write(self, target: TensorData, data: Array) -> None:
        self.forbid_upload()
        _check_allocation(target)
        target._storage.upload = Upload(*self.transfer.upload(target._ready_storage().buffer, data))

    def read(self, source: TensorData) -> Array:
        _check_allocation(source)
        return self.to_host(source.buffer, source.shape, source.dtype)

    def host_memory(self, source: TensorData) -> Array | None:
        if self.handle.device_type != "cpu":
            return None
        _check_allocation(source)
        self._check_read()
        mapped = self.transfer.mapped(source.buffer, source.shape, numpy_dtype(source.dtype))
        self._check_flag()
        return np.asarray(_HostMemory(mapped, source._storage))

    def receive(self, source: TensorT) -> TensorT:
        queue = source.engine.queue
        if self.context != getattr(queue, "context", None) or self.queue.device != queue.device:
            return super().receive(source)
        _check_allocation(source)
        host_read_allowed(source.engine)
        self.forbid_upload()
        target: TensorT = self.empty(source.shape, source.dtype)
        self.transfer.copy_from(queue, source.buffer, target.buffer, source.nbytes)
        return target

    def read_async(self, source: TensorData) -> HostTransfer:
        """Starts a copy to the host and returns it."""
        _check_allocation(source)
        out, event = self.to_host_async(source.buffer, source.shape, source.dtype)

        def finish() -> Array:
            self.transfer.let_go()
            self._check_flag()
            return from_bfloat16(out) if source.dtype == "bfloat16" else out

        return DeviceTransfer(event, finish, self.launcher)

    def finish(self) -> None:
        self.launcher.finish()

    # -- recording -----------------------------------------------------------------------------------------------------

    @property
    def recording(self) -> Recording | None:
        """The open recording of the calling thread; None if its launches run at once."""
        launcher = self.launcher
        return launcher.recording if launcher.recordings else None

    @recording.setter
    def recording(self, recording: Recording | None) -> None:
        if recording is not None:
            late_launches.enqueue()  # waiting launches come before, and are not recorded
        self.launcher.recording = recording

    def new_recording(self) -> Recording:
        """Returns an empty recording for this thread."""
        return self.launcher.new_recording()

    @property
    def sink(self) -> ProfilerSink | None:
        """The profiler among the interceptors, which records each launch and copy; None without one."""
        return self.launcher.sink

    @sink.setter
    def sink(self, sink: ProfilerSink | None) -> None:
        self.launcher.sink = sink

    # -- computing -----------------------------------------------------------------------------------------------------

    def planned(
        self, what: Program | Product | Copies, args: Sequence[Any], scalars: Mapping[str, float | int]
    ) -> Callable[[Sequence[Any]], Any] | None:
        """Returns the function that repeats an op that has just run ``what`` on ``args``, by its execution plan; see
        ``queue/plans/planned_op.py``. None if there is none.
        """
        if self._poisons:  # such a function allocates its results from the pool
            return None
        if isinstance(what, Copies):
            return copy.planned(self, what)
        return gemm.planned(self, what) if isinstance(what, Product) else run.planned(self, what, args, scalars)

    @property
    def converts_copies(self) -> bool:
        """True if ``copy`` converts between float32 and the half types: the kernels of GPUs do."""
        return not traits(self).is_cpu

    def float32_roles(
        self, name: str, args: Sequence[Any], half: str, options: Mapping[str, Any]
    ) -> tuple[bool, bool, bool]:
        """Returns three booleans, for both operands and the result of ``matmul`` or ``conv`` in the half type ``half``:
        True if the kernels can round it while they load or store it as float32 (``half`` and ``wide`` of these calls).
        """
        module = {"matmul": self.kernel_modules.gemm, "conv": self.kernel_modules.conv}[name]
        return module.float32_roles(self, *args, half, **options)  # type: ignore[no-any-return]

    def describe(self, program: Described, shapes: Sequence[tuple[int, ...]]) -> list[KernelText]:
        """Returns the kernels of ``program`` on inputs of ``shapes``, in the order of their launches."""
        engine: Any = self.relaxed() if program.relaxed else self  # a QueueContext: Relaxed forwards missing attributes
        return describe(engine, program, shapes)

    def relaxed(self) -> Relaxed:
        """Returns this engine with fast math: its ``run`` builds kernels with -cl-fast-relaxed-math."""
        return relaxed(self)

    @property
    def borders_at_once(self) -> bool:
        return not traits(self).is_cpu

    @property
    def rng_state(self) -> Tensor:
        """(seed, base) of the random generator, or of the step that this thread records, as int64[2]."""
        recorded: Tensor | None = rng_state_here(self)
        if recorded is not None:
            return recorded
        state = self._rng_state
        if state is None:
            state = self._rng_state = self.zeros((2,), "int64", persistent=True)
        return state

    def signals(self, count: int) -> Tensor:
        """Returns at least ``count`` words, int32, for the published states of a launch's work-groups. The engine
        keeps them, and the kernels that use them (look_back.cl) reset them for the next launch.
        """
        size = max(_SIGNALS, 1 << (count - 1).bit_length())
        with self._lock:
            words = self._signals.get(size)
            if words is None:
                allocation = self.pool.allocate(4 * size)
                self.transfer.upload(allocation.buffer, np.zeros(size, np.int32), private=True)
                words = self._signals[size] = Tensor._wrap(self, (size,), "int32", allocation.buffer, None, allocation)
                words.persistent = allocation.keep = True
            return words

    # -- checks that report late ---------------------------------------------------------------------------------------

    @property
    def flag(self) -> Any:
        """The int[8] for kernels' reports of failed checks (``c_types.report``); reading it marks one as pending."""
        with self._lock:
            if self._flag is None:
                self._flag = self.pool.allocate(32)
                self.transfer.upload(self._flag.buffer, np.zeros(8, np.int32), private=True)
        recording = open_here(self) if self.launcher.recordings else None
        if recording is not None:
            recording.mark(self._mark_flag)
        self._flag_raised = True
        return self._flag.buffer

    def _mark_flag(self) -> None:
        self._flag_raised = True

    def _check_flag(self) -> None:
        if not self._flag_raised or self._flag is None:
            return
        self._flag_raised = False
        report = np.zeros(8, np.int32)
        self.transfer.download(self._flag.buffer, report)
        if report[0]:
            self.transfer.upload(self._flag.buffer, np.zeros(8, np.int32), private=True)
            value, position, size = report[2:].view(np.int64).tolist()
            if report[1]:
                value = float(report[2:3].view(np.float32)[0])
            raise flags.error(int(report[0]), value, position, size)


def _check_allocation(tensor: TensorData) -> None:
    """Raises UnsupportedError if the tensor's allocation was released: its buffer may be another tensor's by now."""
    allocation = tensor.pool_handle
    if allocation is not None and allocation.buffer is None:
        raise UnsupportedError(
            f"the buffer of this {tensor.dtype} tensor of shape {tensor.shape} was released; "
            "drop the tensor (del t) instead of releasing its pool_handle"
        )
