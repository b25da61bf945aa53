"""The NumPy engine: every call of DeviceBackend on arrays, with the same names and signatures as on OpenCL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from netcl.core import config
from netcl.core.backend import host_call
from netcl.core.backend.cpu import (
    attention,
    border,
    cached_attention,
    compaction,
    conv,
    copy,
    ctc,
    gemm,
    index,
    packed,
    random,
    recurrence,
    resample,
    run,
    scan,
    sort,
    sparse,
    window,
)
from netcl.core.backend.forwarding import ForwardedCalls, KernelModules, flags
from netcl.core.device.discovery import CPUQueue, DeviceHandle
from netcl.core.dtypes import STORAGE, from_bfloat16, numpy_dtype
from netcl.core.engine import one_by_one
from netcl.core.engine.product import Copies, Product
from netcl.core.engine.profiler_sink import LaunchRecord, ProfilerSink
from netcl.core.engine.protocol import Described, HostTransfer, KernelText
from netcl.core.engine.recording import OpenRecordings, Recording, host_read_allowed, open_here, rng_state_here
from netcl.core.ops_table.program import Program
from netcl.core.process import naming
from netcl.core.process.poison import poison_array
from netcl.core.storage.data import TensorData
from netcl.core.storage.host import to_storage, view
from netcl.core.storage.storage import Storage
from netcl.core.storage.views import Geometry
from netcl.core.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


class CPUBackend(ForwardedCalls, OpenRecordings):
    """The engine of a CPUQueue: computes with NumPy in the calling thread."""

    name = "cpu"
    kernel_modules: KernelModules = KernelModules(
        run,
        one_by_one,
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
        super().__init__()
        self.queue: CPUQueue = queue if queue is not None else CPUQueue()
        self.context: None = None
        self.handle: DeviceHandle = DeviceHandle("NumPy", f"NumPy {np.__version__}", "cpu", "cpu", None, self.queue)
        self.device_label = "cpu (NumPy)"
        self.sink: ProfilerSink | None = None
        self._failure: tuple[int, float, int, int] | None = None
        self._rng_state: Tensor | None = None
        self._poisons: bool = config.get("POISON")

    # -- transfers of the contract, on arrays --------------------------------------------------------------------------

    def from_host(
        self, data: Any, dtype: str = "float32", async_copy: bool | None = None, use_pinned: bool | None = None
    ) -> Array:
        """Returns ``data`` as a contiguous array in the storage dtype; the copy arguments have no effect here."""
        return to_storage(data, dtype)[0]

    def from_shape(
        self, shape: Sequence[int], dtype: str = "float32", pool: Any = None, fill: float | None = 0
    ) -> Array:
        """Returns an array of ``shape`` filled with ``fill``; None leaves it undefined."""
        if fill is None:
            return np.empty(tuple(shape), numpy_dtype(dtype))
        return to_storage(np.full(tuple(shape), fill), dtype)[0]

    def to_host(self, storage: Array, shape: Sequence[int], dtype: str) -> Array:
        """Returns the same array, in ``shape``."""
        return storage if storage.shape == tuple(shape) else storage.reshape(tuple(shape))

    def to_host_async(self, storage: Array, shape: Sequence[int], dtype: str) -> tuple[Array, None]:
        """Returns a copy of the array, and no event, as there is nothing to wait for."""
        return self.to_host(storage, shape, dtype).copy(), None

    def wait(self, event: Any = None) -> None:
        """Raises the error of a failed check; nothing is ever pending."""
        self._raise_flag()

    def reshape(self, storage: Array, shape: Sequence[int]) -> Array:
        """Returns the same memory in another shape."""
        return storage.reshape(tuple(shape))

    # -- tensors -------------------------------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: str, *, persistent: bool = False, pool: Any = None) -> Any:
        shape = tuple(shape)
        array = np.empty(shape, STORAGE[dtype])
        if self._poisons:
            poison_array(array)
            recording = None if persistent else open_here(self)
            if recording is not None:
                recording.append(partial(poison_array, array))
        tensor = Tensor._wrap(self, shape, dtype, None, array, None)
        tensor.persistent = persistent
        return tensor

    def allocating_from(self, pool: Any) -> AbstractContextManager[None]:
        """Does nothing: NumPy allocates the arrays."""
        return nullcontext()

    def tensor(self, data: Array, dtype: str, *, persistent: bool = False) -> Any:
        storage, _ = to_storage(data, dtype) if data.dtype != numpy_dtype(dtype) else (data, dtype)
        self.forbid_upload()
        tensor = self.empty(storage.shape, dtype, persistent=persistent)
        tensor.array[...] = storage
        return tensor

    def upload(
        self, data: Array, dtype: str, *, async_copy: bool | None, use_pinned: bool | None, copy: bool, persistent: bool
    ) -> tuple[tuple[Any, Array, Any], Any, Any, Array | None]:
        """Returns storage with ``data``: (buffer, array, allocation), event, pending release, aliased host array."""
        self.forbid_upload()
        return (None, data.copy() if copy else data, None), None, None, None if copy else data

    def gathered(self, root: Storage, geometry: Geometry) -> Array | None:
        """Returns a copy of the elements of ``root`` that ``geometry`` names; None if the copy is to be a call."""
        if self.intercepting or self.recording is not None or root.deferred is not None:
            return None
        flat = root.array.reshape(-1)
        elements = view(flat, *geometry) if geometry.shape else flat[geometry.offset, ...]
        return elements.copy()  # type: ignore[no-any-return]

    def write(self, target: TensorData, data: Array) -> None:
        self.forbid_upload()
        target.array[...] = data

    def read(self, source: TensorData) -> Array:
        if self.recordings:
            host_read_allowed(self)
        if self._failure is not None:
            self._raise_flag()
        return source.array.copy()  # type: ignore[no-any-return]

    def read_async(self, source: TensorData) -> HostTransfer:
        """Returns a transfer that is already complete."""
        values = self.read(source)
        return HostTransfer(None, lambda: from_bfloat16(values) if source.dtype == "bfloat16" else values)

    def finish(self) -> None:
        """Returns at once: nothing is ever pending."""

    def describe(self, program: Described, shapes: Sequence[tuple[int, ...]]) -> list[KernelText]:
        """Returns None: NumPy runs no kernels."""
        return []

    def relaxed(self) -> CPUBackend:
        """Returns itself: NumPy has only one arithmetic."""
        return self

    def new_recording(self) -> Recording:
        """Returns an empty recording for this thread."""
        return Recording(owner=self)

    # -- computing -----------------------------------------------------------------------------------------------------

    def launch(self, function: Callable[..., None], *args: Any) -> None:
        """Runs ``function(*args)``, which writes into arrays among ``args``; while this thread records, only records
        it. A function with an attribute ``exact`` raises no error of NumPy's, and needs no scope for them.
        """
        recording, sink = self.recording, self.sink
        if recording is not None:
            recording.append(lambda: function(*args), record=LaunchRecord(function.__name__, args))
        elif sink is None and hasattr(function, "exact"):
            function(*args)
        elif sink is None:
            with np.errstate(all="ignore"):  # devices say nothing of overflow and NaN
                function(*args)
        else:
            began = perf_counter()
            with np.errstate(all="ignore"):
                function(*args)
            sink.kernel(began, None, function.__name__, args)
        if self._failure is not None and recording is None and naming.is_foreign():
            self._raise_flag()

    def planned(
        self, what: Program | Product | Copies, args: Sequence[Any], scalars: Mapping[str, float | int]
    ) -> Callable[[Sequence[Any]], Tensor | None] | None:
        """Returns the function that repeats an op that has just run ``what`` on ``args``. None if there is none."""
        if isinstance(what, Copies):
            return copy.planned(self, what)
        return gemm.planned(self, what) if isinstance(what, Product) else run.planned(self, what, args, scalars)

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

    # -- deferred checks -----------------------------------------------------------------------------------------------

    def raise_flag(self, code: int, value: float, position: int, size: int) -> None:
        """Reports a failed check: the next host read raises the error of the first one, in a program written for
        PyTorch the launch. Code 0 means no failure.
        """
        if code:
            self._failure = self._failure or (code, value, position, size)

    def _raise_flag(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise flags.error(*failure)
