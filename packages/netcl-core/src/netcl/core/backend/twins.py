"""What both backends share: computing calls go to the twin file of their name, recordings refuse host writes."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.base import Pair
from netcl.core.backend.calls import noted
from netcl.core.backend.epilogue import Epilogue, check
from netcl.core.backend.reading import flags
from netcl.core.backend.watching import worked
from netcl.core.cost import attention_flops, attention_grad_flops, conv_flops, matmul_flops
from netcl.core.errors import CaptureError
from netcl.core.expr import Expr, Load, apply, reduce
from netcl.core.waiting import image_shape, may_wait, product_shape

if TYPE_CHECKING:
    from netcl.core.backend.recording import Recording
    from netcl.core.tensor_data import TensorData, TensorT


_PAIRS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_NOTHING = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


class Twins(NamedTuple):
    """The files of a backend that have a twin in the other."""

    gemm: Any
    conv: Any
    window: Any
    index: Any
    random: Any
    copy: Any
    resample: Any
    scan: Any
    sort: Any
    trellis: Any
    recurrence: Any
    attention: Any


class TwinCalls:
    """The computing calls of an engine, as ``DeviceBackend`` describes them; ``twins`` are the backend's files."""

    twins: Twins

    @noted
    def run_each(
        self,
        outputs: Sequence[Expr],
        inputs: Sequence[Sequence[TensorT]],
        shared: Sequence[TensorT] = (),
        scalars: Mapping[str, float | int] | None = None,
        *,
        out: Sequence[Sequence[TensorT]] | None = None,
    ) -> list[tuple[TensorT, ...]]:
        engine: Any = self
        targets = [None] * len(inputs) if out is None else [list(one) for one in out]
        return [
            engine.run(outputs, (*one, *shared), scalars, shapes=None if to is None else [t.shape for t in to], out=to)
            for one, to in zip(inputs, targets)
        ]

    @noted
    def reduce_each(
        self, kind: str, expression: Expr, inputs: Sequence[Sequence[TensorT]], shared: Sequence[TensorT] = ()
    ) -> TensorT:
        engine: Any = self
        pair = Load(0, expression.dtype), Load(1, expression.dtype)
        total: TensorT | None = None
        for one in inputs:
            if any(tensor.size == 0 for tensor in one):
                continue
            rank = max(tensor.ndim for tensor in one)
            whole = reduce(kind, expression, tuple(range(rank)))
            (part,) = engine.run((whole,), (*one, *shared), shapes=[(1,) * rank])
            part = part._alias(type(part), (1,))
            total = part if total is None else engine.run((apply(_PAIRS[kind], *pair),), (total, part))[0]
        if total is None:
            nothing: TensorT = engine.empty((1,), expression.dtype)
            engine.fill(nothing, _NOTHING[kind])
            return nothing
        return total

    @may_wait(product_shape)
    @noted
    @worked(matmul_flops)
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
        if epilogue is not None:
            check(epilogue, a.dtype)
        result: TensorT = self.twins.gemm.matmul(
            self, a, b, transpose_a=transpose_a, transpose_b=transpose_b, out=out, epilogue=epilogue
        )
        return result

    @may_wait(image_shape)
    @noted
    @worked(conv_flops)
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
        if epilogue is not None:
            check(epilogue, a.dtype)
        result: TensorT = self.twins.conv.conv(
            self,
            kind,
            a,
            b,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            shape=shape,
            algo=algo,
            epilogue=epilogue,
        )
        return result

    @noted
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
        return self.twins.window.window(
            self,
            kind,
            x,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            shape=shape,
            indices=indices,
            count_include_pad=count_include_pad,
            divisor=divisor,
        )

    @noted
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
    ) -> TensorT:
        result: TensorT = self.twins.index.index(self, kind, x, indices, axis=axis, shape=shape, out=out, op=op)
        return result

    @noted
    def nonzero(self, mask: TensorT) -> TensorT:
        result: TensorT = self.twins.index.nonzero(self, mask)
        return result

    @noted
    def resample(
        self, kind: str, x: TensorT, *, axis: int, size: int, taps: int, places: tuple[int, int, int]
    ) -> TensorT:
        result: TensorT = self.twins.resample.resample(self, kind, x, axis=axis, size=size, taps=taps, places=places)
        return result

    @noted
    def scan(
        self, kind: str, x: TensorData, other: TensorData | None = None, *, axis: int, reverse: bool = False
    ) -> Any:
        return self.twins.scan.scan(self, kind, x, other, axis=axis, reverse=reverse)

    @noted
    def sort(
        self,
        kind: str,
        x: TensorData,
        other: TensorData | None = None,
        *,
        size: int = 0,
        descending: bool = False,
        right: bool = False,
    ) -> Any:
        return self.twins.sort.sort(self, kind, x, other, size=size, descending=descending, right=right)

    @noted
    def trellis(self, x: TensorT, jumps: TensorT, begins: TensorT | None = None) -> TensorT:
        result: TensorT = self.twins.trellis.trellis(self, x, jumps, begins)
        return result

    @noted
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
    ) -> tuple[TensorT, TensorT, TensorT]:
        given = (x, weight, state, bias, cell)
        return self.twins.recurrence.recurrence(self, kind, *given, reverse)  # type: ignore[no-any-return]

    @noted
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
        given = (weight, state, cell, out, cells, kept, by_out, by_cells)
        return self.twins.recurrence.recurrence_back(self, kind, *given, reverse)  # type: ignore[no-any-return]

    @noted
    @worked(attention_flops)
    def attention(
        self, q: TensorT, k: TensorT, v: TensorT, mask: TensorT | None, *, causal: bool, scale: float
    ) -> tuple[TensorT, TensorT]:
        return self.twins.attention.attention(self, q, k, v, mask, causal, scale)  # type: ignore[no-any-return]

    @noted
    @worked(attention_grad_flops)
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
        given = (grad, q, k, v, mask, out, lse, causal, scale)
        return self.twins.attention.attention_grad(self, *given)  # type: ignore[no-any-return]

    @noted
    def random(self, kind: str, shape: Sequence[int], dtype: str, *, offset: int, low: int = 0, high: int = 0) -> Any:
        result: Any = self.twins.random.random(self, kind, shape, dtype, offset=offset, low=low, high=high)
        return result

    @noted
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
        self.twins.copy.copy(
            self,
            source,
            out,
            shape=shape,
            source_strides=source_strides,
            source_offset=source_offset,
            out_strides=out_strides,
            out_offset=out_offset,
        )

    def zeros(self, shape: Sequence[int], dtype: str, *, persistent: bool = False) -> Any:
        engine: Any = self
        tensor: Any = engine.empty(shape, dtype, persistent=persistent)
        engine.fill(tensor, 0)
        return tensor

    def receive(self, source: TensorT) -> TensorT:
        """A copy of another engine's tensor, by way of the host."""
        engine: Any = self
        tensor: TensorT = engine.tensor(source.engine.read(source), source.dtype)
        return tensor

    def flag_code(self, message: str) -> int:
        """The code under which a check raises ``message`` at the next host read."""
        return flags.code(message)

    def forbid_upload(self) -> None:
        """CaptureError while this thread records: a replay would see the values of the recording."""
        engine: Any = self
        recording: Recording | None = engine.recording
        if recording is not None and recording.thread == threading.get_ident():
            raise CaptureError(
                "host data were written to the device while a step is captured, so a replay would see the old values; "
                "make the tensor before the capture and pass it in"
            )
