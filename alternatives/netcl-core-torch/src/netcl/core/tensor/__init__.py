"""Tensor: an array on a device, over a tensor of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from netcl_core_kit.host import host_data, lengths
from netcl_core_kit.tensor import TensorBase

from netcl.core.dtypes import NAMES, TORCH, DType, canonical
from netcl.core.engine.registry import engine_for, is_queue
from netcl.core.errors import ShapeError
from netcl.core.tensor import in_place

__all__ = ["Tensor"]


class _Count(int):
    """A number of elements that can be called for the shape, as PyTorch's ``size()``."""

    _shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]


class Tensor(TensorBase):
    """An n-dimensional array of fixed shape and dtype on a device. Results of reshape, permute, expand, basic indexing
    and diagonal are views: writes in place show in what they are views of.
    """

    _t: torch.Tensor

    def __init__(
        self, buffer: Any, shape: Sequence[int], dtype: str, context: Any, queue: Any, pool_handle: Any = None,
        persistent: bool = False, requires_grad: bool = False, grad: Tensor | None = None, grad_fn: Any = None,
        backend: str | None = None, array: Any = None, pending_event: Any = None, pending_release: Any = None,
        host_ref: Any = None,
    ) -> None:  # fmt: skip
        self.engine = engine_for(queue)
        source = buffer if buffer is not None else array
        made = torch.as_tensor(source, device=self.engine.place)
        self._t = made.to(TORCH[canonical(dtype)]).reshape(lengths(shape))
        self.persistent, self.grad, self.grad_fn = persistent, grad, grad_fn
        if requires_grad:
            self.requires_grad = True

    @staticmethod
    def _of(value: torch.Tensor, engine: Any) -> Tensor:
        made = _new(Tensor)
        made._t, made.engine = value, engine
        return made

    _of_base = _of

    # ------------------------------------------------------------------------------------------------------ creation

    @classmethod
    def _made(cls, value: torch.Tensor, engine: Any, requires_grad: bool = False, persistent: bool = False) -> Any:
        made = cls._of(value, engine)
        if persistent:
            made.persistent = True
        if requires_grad:
            made.requires_grad = True
        return made

    @classmethod
    def from_host(
        cls, *args: Any, dtype: str | None = None, backend: str | None = None, async_copy: bool | None = None,
        use_pinned: bool | None = None, copy: bool = True, requires_grad: bool = False, persistent: bool = False,
    ) -> Any:  # fmt: skip
        """``from_host(queue, data, dtype=None)`` or ``from_host(data, dtype=None)``: host data on a device."""
        queue = None
        if len(args) == 3 or (len(args) > 1 and args[0] is None) or (args and is_queue(args[0])):
            queue, args = args[0], args[1:]
        if not 1 <= len(args) <= 2:
            raise TypeError("from_host takes (data, dtype=None) or (queue, data, dtype=None)")
        dtype = canonical(args[1] if len(args) == 2 and args[1] is not None else dtype) if (
            dtype is not None or len(args) == 2 and args[1] is not None
        ) else None  # fmt: skip
        engine, data = engine_for(queue), args[0]
        if isinstance(data, Tensor):
            value = data._t.to(engine.place, TORCH[dtype or data.dtype], copy=True)
            return cls._made(value, engine, requires_grad, persistent)
        if isinstance(data, torch.Tensor):
            value = data.detach().to(engine.place, TORCH[canonical(dtype or data.dtype)], copy=True)
            return cls._made(value, engine, requires_grad, persistent)
        array, dtype = host_data(data, dtype, copy)
        value = torch.from_numpy(array).to(engine.place, TORCH[dtype])
        return cls._made(value, engine, requires_grad, persistent)

    @classmethod
    def empty(
        cls, shape: Any, dtype: str = "float32", *, context: Any = None, queue: Any = None, requires_grad: bool = False,
        persistent: bool = False,
    ) -> Any:  # fmt: skip
        """A tensor of ``shape`` with undefined content."""
        engine = engine_for(queue)
        value = torch.empty(lengths(shape), dtype=TORCH[canonical(dtype)], device=engine.place)
        return cls._made(value, engine, requires_grad, persistent)

    @classmethod
    def full(
        cls, shape: Any, value: float, dtype: str = "float32", *, context: Any = None, queue: Any = None,
        requires_grad: bool = False, persistent: bool = False,
    ) -> Any:  # fmt: skip
        """A tensor of ``shape`` whose elements are all ``value``."""
        engine = engine_for(queue)
        # Not fill_, which counts as a write.
        made = torch.full(lengths(shape), value, dtype=TORCH[canonical(dtype)], device=engine.place)
        return cls._made(made, engine, requires_grad, persistent)

    @classmethod
    def eye(
        cls, n: int, m: int | None = None, dtype: str = "float32", *, context: Any = None, queue: Any = None,
        requires_grad: bool = False, persistent: bool = False,
    ) -> Any:  # fmt: skip
        """The (n, m) matrix with ones on its diagonal; m defaults to n."""
        engine = engine_for(queue)
        value = torch.eye(n, n if m is None else m, device=engine.place).to(TORCH[canonical(dtype)])
        return cls._made(value, engine, requires_grad, persistent)

    # ----------------------------------------------------------------------------------------------------- attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes, a tuple of ints."""
        return tuple(self._t.shape)

    @property
    def dtype(self) -> DType:
        """The dtype: its name, a string, with PyTorch's attributes."""
        return NAMES[self._t.dtype]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._t.dim()

    @property
    def size(self) -> Any:
        """The number of elements; called, as ``x.size()`` or ``x.size(0)``, the lengths of the axes."""
        count = _Count(self._t.numel())
        count._shape = self.shape
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self._t.numel() * self._t.element_size()

    @property
    def context(self) -> Any:
        """None: PyTorch's devices have no contexts."""
        return None

    @property
    def storage_id(self) -> int:
        """A number that all tensors on the same storage share."""
        return self._t.untyped_storage()._cdata  # type: ignore[no-any-return]

    @property
    def version(self) -> int:
        """The number of writes in place into the storage."""
        return self._t._version

    _version = version

    @property
    def data(self) -> Tensor:
        """The same storage outside of the gradient graph; writes into it are not counted."""
        made = Tensor._of(self._t.data, self.engine)
        made._view = in_place.DATA
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        if value._t.data_ptr() != self._t.data_ptr() or value._t.stride() != self._t.stride():
            self._t, self.engine = value._t, value.engine

    def detach(self) -> Tensor:
        """The same storage outside of the gradient graph."""
        return Tensor._of(self._t.detach(), self.engine)

    def numel(self) -> int:
        """The number of elements."""
        return self._t.numel()

    def is_floating_point(self) -> bool:
        """True for a floating dtype."""
        return self._t.is_floating_point()

    def data_ptr(self) -> int:
        """A number for the place of the first element."""
        return self._t.data_ptr()

    def storage_offset(self) -> int:
        """The position of the first element in the storage."""
        return int(self._t.storage_offset())

    def stride(self, dim: int | None = None) -> Any:
        """The steps between elements along the axes, or along ``dim``."""
        return tuple(self._t.stride()) if dim is None else self._t.stride(dim)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True if the elements follow each other in C order in the storage."""
        if str(memory_format).endswith("channels_last"):
            return self._t.is_contiguous(memory_format=torch.channels_last)
        return self._t.is_contiguous()

    def untyped_storage(self) -> Any:
        """The storage that this tensor shares with its views."""
        return self._t.untyped_storage()

    # ----------------------------------------------------------------------------------------------------- host reads

    def numpy(self, *, force: bool = False) -> Any:
        """The values as a new array of ``shape``; bfloat16 reads as float32. ``force`` changes nothing."""
        self.engine.raise_reported()
        value = self._t.float() if self._t.dtype == torch.bfloat16 else self._t
        return np.array(value.cpu().numpy(), order="C", copy=True)

    to_host = numpy

    def item(self) -> Any:
        """The one element as a Python number; ShapeError if there are more or none."""
        if self._t.numel() != 1:
            raise ShapeError(f"item: a tensor of shape {self.shape} has not one element; index it first")
        self.engine.raise_reported()
        return self._t.item()

    def tolist(self) -> Any:
        """The values as nested Python lists (a number for a 0-d tensor)."""
        self.engine.raise_reported()
        return self._t.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self.grad_fn is not None:
            raise RuntimeError("deepcopy takes leaves; write detach() first")
        made = type(self).__new__(type(self))
        made.__dict__.update({key: value for key, value in self.__dict__.items() if key not in ("_cell", "_view")})
        made._t = self._t.clone()
        if self.grad is not None:
            made.grad = self.grad.clone()
        memo[id(self)] = made
        return made

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    # --------------------------------------------------------------------------------------- memory, for netcl-core-kit

    def _share(self, other: Tensor) -> None:
        self._t, self.engine = other._t, other.engine

    def _reshaped(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor._of(self._t.view(shape), self.engine)

    def _store(self, source: Tensor) -> None:
        value = source._t
        if value.untyped_storage() is self._t.untyped_storage() and value is not self._t:
            value = value.clone()
        self._t.copy_(value)

    def _overlaps(self) -> bool:
        return any(stride == 0 and length > 1 for length, stride in zip(self._t.shape, self._t.stride()))


_new: Any = Tensor.__new__

import netcl.ops  # noqa: E402, F401
