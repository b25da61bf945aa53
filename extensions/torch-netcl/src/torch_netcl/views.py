"""Kernels that make tensors, views and copies; they take PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from netcl.ops import cast, clone
from torch_netcl import fallback, memory, overload, words
from torch_netcl.memory import DTYPES, ENGINE, give, new, put, take

TABLE: dict[str, Callable[..., Any]] = {}
_aten = torch.ops.aten


def kernel(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the kernel of overloads; no room is PyTorch's error."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        roomy = memory.roomy(function)
        TABLE.update(dict.fromkeys(names, function if names[0] in ("view", "as_strided") else roomy))
        return roomy

    return add


def _only_strided(layout: Any, device: Any = None) -> None:
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"device 'ocl' has strided tensors only, got layout {layout}")
    if device is not None and device.index not in (None, 0):
        raise RuntimeError(
            f"{device}: PyTorch counts one device of this backend; set NETCL_DEVICE in each process instead"
        )


@kernel("empty.memory_format")
def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Returns a tensor of undefined values."""
    _only_strided(layout, device)
    dtype = dtype or torch.get_default_dtype()
    if any(length < 0 for length in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if memory_format in (None, torch.contiguous_format, torch.preserve_format):
        return new(size, dtype)
    shadow = torch.empty(size, device="meta", memory_format=memory_format)
    return empty_strided(size, shadow.stride(), dtype)


@kernel("empty_strided")
def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    """Returns a tensor of undefined values with these strides."""
    _only_strided(layout, device)
    dtype = dtype or torch.get_default_dtype()
    shape = tuple(size)
    if tuple(stride) == memory.contiguous_strides(shape):
        return new(shape, dtype)
    extent = 0 if 0 in shape else 1 + sum((length - 1) * step for length, step in zip(shape, stride))
    return memory.strided(new((extent,), dtype), size, stride, 0)


@kernel("as_strided")
def as_strided(x, size, stride, storage_offset=None):
    """Returns a view by strides; raises PyTorch's RuntimeError for one beyond the storage."""
    offset = last = x.storage_offset() if storage_offset is None else storage_offset
    if 0 not in size:
        for length, step in zip(size, stride):
            last += (length - 1) * step
        storage: Any = x.untyped_storage()
        if last >= storage.content.size and last * x.dtype.itemsize >= storage.nbytes():
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
                f"{x.dtype.itemsize} requiring a storage size of {(last + 1) * x.dtype.itemsize} are out of bounds for "
                f"storage of size {storage.nbytes()}"
            )
    return memory.strided(x, size, stride, offset)


_view = _aten.view.default._op_dk
_cpu = torch._C.DispatchKey.CPU


@kernel("view")
def view(x, size):
    """Returns the view in another shape."""
    return _view(_cpu, x, size)  # type: ignore[no-any-return]


for _name in ("unfold", "view_as_real", "view_as_complex"):
    TABLE[_name] = partial(fallback.view, overload(_name))


def _replaced(view: Any) -> Callable[..., Any]:
    """Returns the in-place form of a view: PyTorch's own compares with the size that its storage has in C++, 0."""

    def replaced(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        shown = view(x, *args, **kwargs)
        return fallback.set_geometry(x, x.untyped_storage(), shown.storage_offset(), shown.size(), shown.stride())

    return replaced


def _scattered(view: Any) -> Callable[..., Any]:
    """Returns the kernel that copies ``x`` and writes ``source`` into a view of the copy."""

    def scattered(x: torch.Tensor, source: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if source.device != x.device:
            raise memory.elsewhere(source)
        result = cloned(x)
        part = view(result, *args, **kwargs)
        if part.shape != source.shape:
            raise RuntimeError(
                f"expected src to have a size equal to the slice of self. src size = {list(source.shape)}, slice size "
                f"= {list(part.shape)}"
            )
        copy(part, source)
        return result

    return scattered


@kernel("as_strided_scatter")
def as_strided_scatter(x, source, size, stride, storage_offset=None):
    """Returns a copy of ``x`` with ``source`` at strides of its memory."""
    op = _aten.as_strided_scatter.default
    if x.is_contiguous() and x.numel() * x.dtype.itemsize == x.untyped_storage().nbytes():
        return _scattered(_aten.as_strided.default)(x, source, size, stride, storage_offset)  # type: ignore[no-any-return]
    return fallback.call(op, x, source, size, stride, storage_offset)  # type: ignore[no-any-return]


@kernel("set_.source_Storage_storage_offset")
def set_storage(x, source, storage_offset, size, stride=()):
    """Puts ``x`` on another storage of the device."""
    stride = tuple(stride) or memory.contiguous_strides(tuple(size))
    return fallback.set_geometry(x, source, storage_offset, size, stride)


@kernel("set_.source_Tensor")
def set_tensor(x, source):
    """Makes ``x`` show what ``source`` shows."""
    return fallback.set_geometry(x, source.untyped_storage(), source.storage_offset(), source.size(), source.stride())


@kernel("copy_", "_copy_from_and_resize")
def copy(target, source, non_blocking=False):
    """Copies ``source``, which broadcasts, into ``target``; one of them may be on the CPU."""
    if target is source:
        return target
    if target.device.type == "ocl":
        _copy_in(target, source)
    elif target.device.type == "cpu":
        target.copy_(memory.to_cpu(source))
    else:
        raise RuntimeError(f"copy_ from ocl:0 to {target.device}: copy to the CPU first")
    return target


def _copy_in(target: torch.Tensor, source: torch.Tensor) -> None:
    try:
        shape = torch.broadcast_shapes(target.shape, source.shape)
    except RuntimeError:
        shape = None
    if shape != target.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(shape or source.shape)}"
        )
    memory.check_single(target)
    if target.dtype not in DTYPES or source.dtype not in DTYPES:
        values = memory.to_cpu(source) if source.device.type == "ocl" else source
        memory.put_cpu(target, values.expand(target.shape))
    elif source.device.type == "ocl":
        value = take(source)
        if value.dtype is not DTYPES[target.dtype]:
            value = cast(value, dtype=DTYPES[target.dtype])
        elif value._storage is source.untyped_storage().content._storage:  # type: ignore[attr-defined]
            value = clone(value)
        put(target, value)
    elif source.device.type == "cpu":
        put(target, memory.to_netcl(source))
    else:
        raise RuntimeError(f"copy_ from {source.device} to ocl:0: copy to the CPU first")


@kernel("clone")
def cloned(x, memory_format=None):
    """Returns a copy, contiguous."""
    if x.dtype not in DTYPES:
        return memory.from_cpu(memory.to_cpu(x))
    value = take(x)
    shared = value._storage is x.untyped_storage().content._storage  # type: ignore[attr-defined]
    return give(clone(value) if shared else value)


@kernel("_to_copy")
def to_copy(x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """Returns a copy in a dtype, on a device."""
    _only_strided(layout)
    wanted = dtype or x.dtype
    place = x.device if device is None else torch.device(device)
    if place.type == "ocl":
        if x.device.type == "ocl":
            if x.dtype in DTYPES and wanted in DTYPES:
                return give(cast(take(x), dtype=DTYPES[wanted])) if wanted is not x.dtype else cloned(x)
            return memory.from_cpu(memory.to_cpu(x).to(wanted))
        return memory.from_cpu(x.detach().to(wanted))
    values = memory.to_cpu(x)
    return values.to(device=place, dtype=wanted, non_blocking=non_blocking)


@kernel("fill_.Scalar")
def fill(x, value):
    """Sets every element to a number."""
    if x.dtype not in DTYPES or isinstance(value, complex):
        memory.put_cpu(x, torch.full((), value, dtype=x.dtype).expand(x.shape))
        return x
    if x.dtype is torch.bool:
        value = bool(value)
    elif not x.dtype.is_floating_point and value:
        value = torch.full((), value, dtype=x.dtype).item()
    content: Any = x.untyped_storage().content  # type: ignore[attr-defined]
    if x.is_contiguous() and x.numel() == content.size and content.dtype is DTYPES[x.dtype]:
        if content.size:
            ENGINE.fill(content, value)
            content._storage.written()
        return x
    fresh = ENGINE.empty((), DTYPES[x.dtype])
    ENGINE.fill(fresh, value)
    put(x, fresh)
    return x


@kernel("fill_.Tensor")
def fill_tensor(x, value):
    """Sets every element to that of a 0-d tensor."""
    if value.dim():
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    return copy(x, value)


def _on_host(op: Any) -> Callable[..., Any]:
    """Returns the kernel of an op whose results are of numbers alone: PyTorch computes them on the CPU."""
    return lambda *args, **kwargs: fallback.on_cpu(op, args, kwargs)


for _name in words(
    "arange.start_out linspace.out logspace.out eye.out eye.m_out randperm.generator_out randperm.out tril_indices "
    "triu_indices"
):
    TABLE[_name] = _on_host(overload(_name))


@kernel("_local_scalar_dense")
def item(x):
    """Returns the only element as a number."""
    if x.dtype is torch.bfloat16 or x.dtype not in DTYPES:
        return memory.to_cpu(x).item()
    return ENGINE.read(take(x)).item()


@kernel("equal")
def equal(x, other):
    """Returns True if shapes and elements are equal."""
    if x.device != other.device:
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {x.device} and {other.device}")
    return x.shape == other.shape and bool(torch.eq(x, other).all())


@kernel("record_stream")
def record_stream(x, stream):
    """Does nothing: netcl's queue orders all work."""


TABLE |= {
    "_reshape_alias": lambda x, size, stride: memory.strided(x, size, stride, x.storage_offset()),
    "view.dtype": lambda x, dtype: fallback.view(_aten.view.dtype, x, dtype),
    "as_strided_": _replaced(as_strided),
    "t_": _replaced(_aten.t.default),
    "transpose_": _replaced(_aten.transpose.int),
    "squeeze_": _replaced(_aten.squeeze.default),
    "squeeze_.dim": _replaced(_aten.squeeze.dim),
    "squeeze_.dims": _replaced(_aten.squeeze.dims),
    "unsqueeze_": _replaced(_aten.unsqueeze.default),
    "select_scatter": _scattered(_aten.select.int),
    "slice_scatter": _scattered(_aten.slice.Tensor),
    "diagonal_scatter": _scattered(_aten.diagonal.default),
    "resize_": lambda x, size, memory_format=None: fallback.resize(x, size),
    "set_.source_Storage": lambda x, source: set_storage(x, source, 0, (source.nbytes() // x.dtype.itemsize,)),
    "set_": lambda x: set_tensor(x, new((0,), x.dtype)),
    "is_set_to": lambda x, other: (
        x.untyped_storage()._cdata == other.untyped_storage()._cdata
        and x.storage_offset() == other.storage_offset()
        and (x.shape == other.shape)
        and (x.stride() == other.stride())
    ),
    "_copy_from": lambda source, target, non_blocking=False: copy(target, source),
    "zero_": lambda x: fill(x, 0),
    "is_pinned": lambda x, device=None: False,
}
