"""The constructors of tensors from a shape: filled, counted or drawn; the tensor itself is in tensor.py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from netcl.core.dtypes import canonical
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.recording import unrecorded
from netcl.core.engine.registry import cpu_engine, engine_for
from netcl.core.errors import shorten_traceback
from netcl.core.ops_table import dispatch
from netcl.core.storage.host import check_shape, to_storage
from netcl.core.tensor.methods import Methods
from netcl.core.tensor.operators import ResultT

Array = np.ndarray[Any, Any]


class Creation(Methods[ResultT]):
    """``Tensor.zeros(shape)`` and the like; a base of Tensor. ``queue`` (or handle) None is the active device,
    ``context`` is accepted too and follows from it.
    """

    __slots__ = ()
    engine: DeviceBackend

    @classmethod
    def from_shape(
        cls,
        queue: Any,
        shape: int | Sequence[int],
        dtype: str = "float32",
        pool: Any = None,
        backend: str | None = None,
        fill: float | None = 0,
        *,
        persistent: bool = False,
        requires_grad: bool = False,
    ) -> ResultT:
        """A tensor of ``shape`` filled with ``fill`` (None: undefined content), from ``pool`` or the queue's own."""
        try:
            engine = cpu_engine() if queue is None and backend == "cpu" else engine_for(queue)
            tensor: Any = engine.empty(check_shape(shape), canonical(dtype), persistent=persistent, pool=pool)
        except Exception as error:
            shorten_traceback(error)
            raise
        if fill is not None:
            with unrecorded(engine) if persistent else nullcontext():  # it outlives an open recording
                engine.fill(tensor, fill)
        tensor.requires_grad = requires_grad
        return tensor  # type: ignore[no-any-return]

    @classmethod
    def full(
        cls,
        shape: int | Sequence[int],
        value: float,
        dtype: str = "float32",
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> ResultT:
        """Returns a tensor of ``shape`` filled with ``value``."""
        return cls.from_shape(queue, shape, dtype, fill=value, persistent=persistent, requires_grad=requires_grad)

    @classmethod
    def zeros(cls, shape: int | Sequence[int], dtype: str = "float32", **place: Any) -> ResultT:
        """Zeros of ``shape``; ``context= queue= requires_grad= persistent=`` as in ``full``."""
        return cls.full(shape, 0, dtype, **place)

    @classmethod
    def ones(cls, shape: int | Sequence[int], dtype: str = "float32", **place: Any) -> ResultT:
        """Ones of ``shape``; keyword arguments as in ``full``."""
        return cls.full(shape, 1, dtype, **place)

    @classmethod
    def empty(
        cls,
        shape: int | Sequence[int],
        dtype: str = "float32",
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> ResultT:
        """A tensor of ``shape`` with undefined content."""
        return cls.from_shape(queue, shape, dtype, fill=None, persistent=persistent, requires_grad=requires_grad)

    @classmethod
    def eye(
        cls,
        n: int,
        m: int | None = None,
        dtype: str = "float32",
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> ResultT:
        """The (n, m) matrix with ones on its diagonal; m defaults to n."""
        return cls._host_made(np.eye(n, m, dtype=np.float32), dtype, queue, requires_grad, persistent)

    @classmethod
    def arange(
        cls,
        start: float,
        stop: float | None = None,
        step: float = 1,
        dtype: str | None = None,
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> ResultT:
        """Numbers from ``start`` (0 when only a stop is given) to before ``stop``; whole numbers give int64."""
        data = np.arange(0, start, step) if stop is None else np.arange(start, stop, step)
        return cls._host_made(data, dtype, queue, requires_grad, persistent)

    @classmethod
    def rand(cls, *shape: Any, **place: Any) -> ResultT:
        """Uniform float32 numbers in [0, 1) from the generator that ``ops.manual_seed`` seeds."""
        return cls._random("rand", shape, **place)

    @classmethod
    def randn(cls, *shape: Any, **place: Any) -> ResultT:
        """Standard normal float32 numbers from the generator that ``ops.manual_seed`` seeds."""
        return cls._random("randn", shape, **place)

    @classmethod
    def _host_made(cls, data: Array, dtype: str | None, queue: Any, requires_grad: bool, persistent: bool) -> ResultT:
        storage, name = to_storage(data, dtype)
        tensor: Any = engine_for(queue).tensor(storage, name, persistent=persistent)
        tensor.requires_grad = requires_grad
        return tensor  # type: ignore[no-any-return]

    @classmethod
    def _random(
        cls,
        op: str,
        shape: Sequence[Any],
        *,
        dtype: str = "float32",
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> ResultT:
        sizes = check_shape(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        tensor: Any = dispatch.call(op, sizes, dtype=dtype, queue=queue)
        if persistent:
            kept = tensor.engine.empty(sizes, tensor.dtype, persistent=True)
            kept.write(tensor)
            tensor = kept
        tensor.requires_grad = requires_grad
        return tensor  # type: ignore[no-any-return]
