"""The narrow waist: the calls that a device backend answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from netcl.core.device.discovery import DeviceHandle
    from netcl.core.engine.epilogue import Epilogue
    from netcl.core.engine.interceptors import Interceptor
    from netcl.core.engine.profiler_sink import ProfilerSink
    from netcl.core.engine.recording import Recording
    from netcl.core.expr import Expr
    from netcl.core.storage.data import TensorData, TensorT

Pair = tuple[int, int]

# The message of an index that is out of range: of the name of an op, then of the fields of ``DeviceBackend.flag_code``.
OUT_OF_RANGE = "{}: index {{value}} at position {{position}} is out of range for a length of {{size}}"


class Described(Protocol):
    """The fields of a program of the op table that ``describe`` reads."""

    @property
    def name(self) -> str: ...
    @property
    def outputs(self) -> tuple[Expr, ...]: ...
    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def relaxed(self) -> bool: ...


@runtime_checkable
class DeviceBackend(Protocol):
    """The calls of an engine; one engine per queue. All computing calls may be recorded (see ``recording``). Results
    have the class of the operands.

    Arguments are checked by ``netcl.ops`` before they come here.
    """

    name: str
    queue: Any
    context: Any
    device_label: str
    handle: DeviceHandle

    @property
    def recording(self) -> Recording | None:
        """The open recording of the calling thread, which takes its launches; None while its work runs at once."""
        ...

    @recording.setter
    def recording(self, recording: Recording | None) -> None: ...

    @property
    def interceptors(self) -> tuple[Interceptor, ...]:
        """The interceptors of computing calls, outermost first; see ``netcl.core.engine.interceptors``."""
        ...

    @interceptors.setter
    def interceptors(self, entries: tuple[Interceptor, ...]) -> None: ...

    @property
    def intercepting(self) -> bool:
        """True if a computing call must pass the interceptors: one of them is not idle."""
        ...

    @intercepting.setter
    def intercepting(self, flag: bool) -> None: ...

    @property
    def sink(self) -> ProfilerSink | None:
        """The profiler among the interceptors, which is told of each kernel and copy; None without one."""
        ...

    @sink.setter
    def sink(self, sink: ProfilerSink | None) -> None: ...

    @property
    def borders_at_once(self) -> bool:
        """True if ``border`` takes less time than copies of slices."""
        ...

    @property
    def rng_state(self) -> Any:
        """(seed, base) of the random generator as int64[2]; the recording's while this thread has one open."""
        ...

    def new_recording(self) -> Recording:
        """Returns an empty recording for this thread, with an arena of its own."""
        ...

    def empty(self, shape: Sequence[int], dtype: str, *, persistent: bool = False, pool: Any = None) -> Any:
        """Returns a new tensor of undefined content; persistent ones never come from a recording's arena."""
        ...

    def allocating_from(self, pool: Any) -> AbstractContextManager[None]:
        """Makes this thread's new tensors come from ``pool`` within the block; without effect if the engine has no
        pools.
        """
        ...

    def zeros(self, shape: Sequence[int], dtype: str, *, persistent: bool = False) -> Any:
        """Returns a new tensor of zeros."""
        ...

    def tensor(self, data: np.ndarray[Any, Any], dtype: str, *, persistent: bool = False) -> Any:
        """Returns a new tensor holding a copy of ``data`` (storage dtype or convertible)."""
        ...

    def fill(self, tensor: TensorData, value: float) -> None:
        """Sets every element to ``value``; the first content of a persistent tensor is never recorded."""
        ...

    def upload(
        self,
        data: np.ndarray[Any, Any],
        dtype: str,
        *,
        async_copy: bool | None,
        use_pinned: bool | None,
        copy: bool,
        persistent: bool,
    ) -> tuple[tuple[Any, Any, Any], Any, Any, np.ndarray[Any, Any] | None]:
        """Returns storage holding ``data``: (buffer, array, allocation), event, pending release, host array that is
        read or aliased.
        """
        ...

    def write(self, target: TensorData, data: np.ndarray[Any, Any]) -> None:
        """Overwrites ``target`` with host values of its shape and storage dtype; they are read before the call
        returns.
        """
        ...

    def read(self, source: TensorData) -> np.ndarray[Any, Any]:
        """Returns the content in the storage dtype, after all work before it; raises what the device has reported."""
        ...

    def receive(self, source: TensorT) -> TensorT:
        """Returns a copy of another engine's tensor, behind all work before on its queue."""
        ...

    def read_async(self, source: TensorData) -> HostTransfer:
        """Returns the same copy under way."""
        ...

    def wait(self, event: Any = None) -> None:
        """Waits for ``event`` (None: nothing pending) and raises what the device has reported."""
        ...

    def flag_code(self, message: str, error: type[Exception] = IndexError) -> int:
        """Returns the code under which a check in a kernel raises ``error(message)`` at the next host read. The fields
        {value}, {position}, {size} and {last} of the message are the failing value, its position in row-major order,
        the size that it does not fit, and the size less one.
        """
        ...

    def run(
        self,
        outputs: Sequence[Expr],
        inputs: Sequence[TensorT],
        scalars: Mapping[str, float | int] | None = None,
        *,
        shapes: Sequence[Sequence[int]] | None = None,
        out: Sequence[TensorT | None] | None = None,
    ) -> tuple[TensorT, ...]:
        """Evaluates expressions over the space that inputs and ``shapes`` (of the outputs) broadcast to; ``out`` may
        alias inputs.
        """
        ...

    def run_each(
        self,
        outputs: Sequence[Expr],
        inputs: Sequence[Sequence[TensorT]],
        shared: Sequence[TensorT] = (),
        scalars: Mapping[str, float | int] | None = None,
        *,
        out: Sequence[Sequence[TensorT]] | None = None,
    ) -> list[tuple[TensorT, ...]]:
        """``run`` with ``(*one, *shared)`` for each ``one`` of ``inputs``, which have the same dtypes, with the bits of
        the runs one by one and in as few launches as the device allows. No run writes what another reads.
        """
        ...

    def reduce_each(
        self, kind: str, expression: Expr, inputs: Sequence[Sequence[TensorT]], shared: Sequence[TensorT] = ()
    ) -> TensorT:
        """Parts, of one dimension, of the reduction of ``expression`` over all elements of all of ``inputs``; reduced
        by the same ``kind`` they are the whole.
        """
        ...

    def matmul(
        self,
        a: TensorT,
        b: TensorT,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        out: TensorT | None = None,
        epilogue: Epilogue | None = None,
    ) -> TensorT:
        """Returns (..., M, K) @ (..., K, N) after the transposes, batch dimensions broadcast, float accumulation; then
        ``epilogue`` of each result.
        """
        ...

    def conv(
        self,
        kind: str,
        a: TensorT,
        b: TensorT,
        *,
        stride: Sequence[int],
        padding: Sequence[Pair],
        dilation: Sequence[int],
        groups: int,
        shape: Sequence[int] | None = None,
        algo: str | None = None,
        epilogue: Epilogue | None = None,
    ) -> TensorT:
        """Computes a convolution: ``forward`` (x, weight), ``grad_input`` (grad, weight), ``grad_weight`` (x, grad);
        ``algo`` is a wish; then ``epilogue`` of each result.
        """
        ...

    def window(
        self,
        kind: str,
        x: TensorData,
        *,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[Pair],
        dilation: Sequence[int],
        shape: Sequence[int] | None = None,
        indices: TensorData | None = None,
        count_include_pad: bool = True,
        divisor: int = 0,
    ) -> Any:
        """Computes sliding windows: ``max`` (with indices), ``avg``, ``im2col`` and their gradients ``max_grad``,
        ``avg_grad``, ``col2im``; a stride of 0 cuts an axis into sections.
        """
        ...

    def index(
        self,
        kind: str,
        x: TensorT,
        indices: TensorT,
        *,
        axis: int,
        shape: Sequence[int] | None = None,
        out: TensorT | None = None,
        op: str = "",
        wrap: bool = True,
    ) -> TensorT:
        """Addresses by data: ``take`` (whole rows), ``gather`` (elements), their gradients ``take_grad``,
        ``gather_grad`` (into ``out`` where given), and ``put``, ``scatter``, which write into ``out``.
        Negative indices count from the end if ``wrap``, else they are out of range.
        """
        ...

    def nonzero(self, mask: TensorT) -> TensorT:
        """Returns the flat positions of what is true, int64, in order; reads their number on the host."""
        ...

    def border(self, kind: str, x: TensorT, *, pads: Sequence[Sequence[int]], mode: str) -> TensorT:
        """Returns a border of ``pads``, (before, behind) for each axis. ``forward``: ``x``, of any dtype, with its
        mirror image without the edge (``mode`` reflect) or its edge (replicate) around it. ``gradient``: of ``x``, the
        gradient of such a result, the sums at each element, in its dtype, with axes that are shorter by their pads.

        UnsupportedError if the backend cannot compute so many axes or elements at once.
        """
        ...

    def resample(
        self, kind: str, x: TensorT, *, sizes: Sequence[int], taps: int, places: Sequence[tuple[int, int, int]]
    ) -> TensorT:
        """Interpolates the last axes: ``forward`` to ``sizes`` outputs, at (step * o + start) / unit of each axis,
        ``gradient`` back.
        """
        ...

    def scan(
        self, kind: str, x: TensorData, other: TensorData | None = None, *, axis: int, reverse: bool = False
    ) -> Any:
        """Computes running combinations along ``axis``: ``sum``, ``prod``, ``logsumexp``, ``max`` and ``min`` (with
        indices), ``linear`` (y = x + other * y before).
        """
        ...

    def sort(
        self,
        kind: str,
        x: TensorData,
        other: TensorData | None = None,
        *,
        size: int = 0,
        descending: bool = False,
        right: bool = False,
        wanted: Sequence[str] = (),
    ) -> Any:
        """Puts rows (the last axis) in order.

        ``sort``: the first ``size`` of each row, stably, NaN as the largest, and their positions, int64. ``values``:
        the rows of ``sort`` without positions. ``unstable``: the same, but equals that differ in their bits (zeros of
        both signs, NaN) in any order and form. ``unique``: the distinct elements of a vector in order, and of
        ``wanted`` their ``first`` positions, the ``inverse`` and their ``counts``, int64, read and computed on the
        host, or None if the device does not share its memory. ``runs``: the first element of each run of equal ones in
        a vector with elements (their number is read on the host), and if ``first`` is ``wanted`` its position, int64.
        ``kth``: the position in its row of what comes to the position ``other`` (..., 1), both int64. ``search``: for
        each of ``other`` (rows as ``x``'s, or ``x`` a single row) the number of elements of the sorted row that are
        before it, int64; ``right``: or are equal to it. ``count``: how many of ``x`` are in the bins between the edges
        ``other``, int64. ``put``: each element of a row at the position in ``other`` (int64, no two the same) of a row
        of ``size`` zeros.
        """
        ...

    def ctc(self, x: TensorT, jumps: TensorT, begins: TensorT | None = None) -> TensorT:
        """Returns CTC forward-backward: log sums over the paths through ``x`` (steps, n, states), up to each state
        (alpha), or with ``begins`` from it on (beta).
        """
        ...

    def sparse_rows(self, values: TensorT, columns: TensorT, starts: TensorT, dense: TensorT) -> TensorT:
        """Returns a matrix in CSR (elements ``values``; int32 ``columns`` and ``starts``, one more than rows) times
        ``dense`` (n, width), both of one dtype: the elements of a row are added in their order.
        """
        ...

    def sparse_pairs(self, a: TensorT, b: TensorT, rows: TensorT, columns: TensorT) -> TensorT:
        """Computes for each i the dot product of row rows[i] of ``a`` and row columns[i] of ``b``, both of one dtype;
        int32.
        """
        ...

    def packed_unpack(self, parts: Sequence[TensorT], *, format: str, dtype: str) -> TensorT:
        """Returns the numbers (rows, columns) of a matrix in a packed format, from its parts (rows, elements)."""
        ...

    def packed_product(self, x: TensorT, parts: Sequence[TensorT], *, format: str, turned: bool) -> TensorT:
        """Returns x (m, columns) times the transpose of a packed matrix, or ``turned`` x (m, rows) times the matrix;
        sums in float32 at least.
        """
        ...

    def packed_fused(
        self,
        x: TensorT,
        parts: Sequence[TensorT],
        extras: Sequence[TensorT | None],
        *,
        format: str,
        eps: float,
        gate: str,
    ) -> TensorT:
        """Returns a product of at most four rows of x with what is around it: norm, bias and residual, or None."""
        ...

    def cached_attention(
        self,
        x: TensorT,
        tables: Sequence[TensorT],
        used: TensorT,
        turns: TensorT,
        norms: Sequence[TensorT],
        *,
        scale: float,
        window: int,
        cap: float,
        eps: float,
    ) -> TensorT:
        """Returns the attention of one new token of each row, whose key and value it writes at the place ``used``.

        ``tables`` has keys and values, and the scales of both for a cache in Q8_0.
        """
        ...

    def recurrence(
        self,
        kind: str,
        x: TensorT,
        weight: TensorT,
        state: TensorT,
        bias: TensorT | None,
        cell: TensorT | None,
        *,
        reverse: bool,
        keeps: bool = True,
    ) -> tuple[TensorT, TensorT, TensorT]:
        """Returns all steps of a recurrent net, ``lstm``, ``gru``, ``tanh`` or ``relu``, over the products x (T, N,
        gates H): its states and cells (T, N, H), and what its gates became, (T, N, 4 H): i f g o, or r z n and the
        state's part of n. What a kind lacks is empty, and without ``keeps`` what the gates became, which gradients
        alone read.
        """
        ...

    def recurrence_back(
        self,
        kind: str,
        weight: TensorT,
        state: TensorT,
        cell: TensorT | None,
        out: TensorT,
        cells: TensorT,
        kept: TensorT,
        by_out: TensorT | None,
        by_cells: TensorT | None,
        *,
        reverse: bool,
    ) -> tuple[TensorT, TensorT, TensorT, TensorT]:
        """Computes from the results of ``recurrence`` and the gradients of the first two: the gradients by x, by the
        sums that contain weight and bias (one tensor with the first but for ``gru``), by ``state`` and ``cell``.
        """
        ...

    def attention(
        self, q: TensorT, k: TensorT, v: TensorT, mask: TensorT | None, *, causal: bool, scale: float
    ) -> tuple[TensorT, TensorT]:
        """Returns softmax(scale q k^T + mask) v, never with all scores at a time, and the logarithms (..., queries) of
        what the weights were divided by, infinite where a query sees no key.

        q (..., heads, queries, E) of at most four dimensions, k and v (..., kv heads, keys, E or V), heads a multiple
        of kv heads; a mask of bools says what may be seen, another one is added, and has all keys.
        """
        ...

    def attention_grad(
        self,
        grad: TensorT,
        q: TensorT,
        k: TensorT,
        v: TensorT,
        mask: TensorT | None,
        out: TensorT,
        lse: TensorT,
        *,
        causal: bool,
        scale: float,
    ) -> tuple[TensorT, TensorT, TensorT]:
        """Returns the gradients by q, k and v of ``attention``, which gave ``out`` and ``lse``."""
        ...

    def random(self, kind: str, shape: Sequence[int], dtype: str, *, offset: int, low: int = 0, high: int = 0) -> Any:
        """Draws Philox numbers: ``uniform``, ``normal``, ``bits``, ``randint`` in [low, high), ``kept`` (bool: uniform
        numbers of at least low * 2**-24); counter = base of ``rng_state`` + offset + position // 4.
        """
        ...

    def host_call(
        self,
        action: Callable[[Sequence[TensorData], Sequence[TensorData]], object],
        reads: Sequence[TensorData],
        *,
        out: Sequence[TensorData],
    ) -> None:
        """Calls ``action(reads, out)`` in the order of the engine's calls: at once, or in its position in each replay
        if this thread records. The action enqueues work that reads the values of ``reads`` and writes ``out`` and
        returns without waiting for the device; it makes no computing call of this engine.
        """
        ...

    def copy(
        self,
        source: TensorData,
        out: TensorData,
        *,
        shape: Sequence[int],
        source_strides: Sequence[int],
        source_offset: int,
        out_strides: Sequence[int],
        out_offset: int,
    ) -> None:
        """Copies a block of ``shape`` by strides; strides and offsets in elements, strides may be 0 or negative."""
        ...

    def scatter_block(
        self, x: TensorT, *, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], value: float
    ) -> TensorT:
        """Returns a tensor of ``shape`` full of ``value`` that holds ``x`` at starts + i * steps."""
        ...

    def kernel(self, name: str) -> Callable[..., Any]:
        """Returns the function that computes the call ``name`` of this protocol; it takes the engine first."""
        ...

    def finish(self) -> None:
        """Waits for all work on the queue."""
        ...

    def describe(self, program: Described, shapes: Sequence[tuple[int, ...]]) -> list[KernelText]:
        """Returns the kernels of ``program`` on inputs of ``shapes``, in launch order; NumPy has none."""
        ...

    def relaxed(self) -> Any:
        """Returns the engine with a ``run`` that builds kernels with -cl-fast-relaxed-math; NumPy's returns itself."""
        ...


@dataclass(frozen=True)
class KernelText:
    """One kernel of a program: its OpenCL C, the work-items of a launch and of a group, and what the compiler said."""

    name: str
    program: str
    source: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    options: str = ""
    build_log: str = ""


@runtime_checkable
class SharesMemory(Protocol):
    """An engine that keeps tensors in buffers with memory that the host may see."""

    def host_memory(self, source: TensorData) -> np.ndarray[Any, Any] | None:
        """Returns the memory of ``source`` as an array of the storage dtype, after all work before; None if the host
        does not see it. The array keeps the memory.
        """
        ...


class HostTransfer:
    """A copy to the host under way: ``wait()`` gives the array, ``done()`` says whether it is there, ``event`` is the
    device's.
    """

    def __init__(self, event: Any, finish: Callable[[], np.ndarray[Any, Any]]) -> None:
        self.event: Any = event
        self._finish = finish
        self._values: np.ndarray[Any, Any] | None = None

    def done(self) -> bool:
        """True if ``wait`` would return at once."""
        return self._values is not None or self.event is None or self.event.command_execution_status == 0

    def wait(self) -> np.ndarray[Any, Any]:
        """Returns the values, in the tensor's shape; raises what the device has reported."""
        if self._values is None:
            if self.event is not None:
                self.event.wait()
            self._values = self._finish()
            self.event = None
        return self._values
