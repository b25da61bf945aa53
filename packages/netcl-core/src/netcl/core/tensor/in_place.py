"""Writing in place: the values of a tensor change, in its storage and, while a graph is recorded, in the graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from netcl.core import dtypes
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError, shorten_traceback
from netcl.core.layout import aligned
from netcl.core.ops_table import dispatch
from netcl.core.process.hook_stack import before_write, event
from netcl.core.storage import gradients, views
from netcl.core.storage.data import TensorData
from netcl.core.storage.host import to_storage

DATA = gradients.Mark("data of another tensor")
_COUNTED = nullcontext()
_NUMBERS = (bool, int, float, np.generic)


@event
def write(target: Any, value: Any) -> Any:
    """Gives ``target`` the values of ``value``, the result of an op on it, in place; returns ``target``.

    ``value`` is a tensor on the same device, an array or a number. It broadcasts to the shape of ``target``, else
    ShapeError; its dtype is converted, but not from floating to integer or from numbers to bool, else DTypeError. While
    a graph is recorded, ``target`` becomes the result of the op that gave ``value``; RuntimeError if it is a leaf that
    requires grad. Without a graph only the memory is written. Saved values of ``target`` make a later backward raise.
    """
    try:
        return _write(target, _operand(target, value), same_kind=True)
    except Exception as error:
        shorten_traceback(error)
        raise


@event
def copy(target: Any, source: Any, what: str = "copy_") -> Any:
    """Copies ``source`` into ``target`` in place, as ``write`` does, converted from any dtype; returns ``target``."""
    return _write(target, _operand(target, source), same_kind=False, what=what)


@event
def fill(target: Any, value: Any) -> Any:
    """Sets every element of ``target`` to the number ``value`` in place, by the rules of ``write``."""
    return _write(target, _operand(target, value), same_kind=False, what="fill_")


@event
def assign(target: Any, key: Any, value: Any) -> None:
    """``target[key] = value``: writes ``value``, which broadcasts, in place, by the rules of ``copy``.

    First axes of length 1 of a tensor are dropped, so that it may have more axes than ``target[key]``.
    """
    if isinstance(value, TensorData) and value.shape[:1] == (1,):
        first = next((at for at, length in enumerate(value.shape) if length != 1), len(value.shape))
        value = value.reshape(value.shape[first:])  # type: ignore[attr-defined]
    recorded = None
    if target._requires_grad or target._base is not None or getattr(value, "_requires_grad", False):
        recorded = gradients.registered()
    if recorded is not None:
        with _counting(target):
            if recorded.assigned(target, key, value):
                return
    part = target[key] if views.overlaps(target) else None
    if part is not None and views.root_of(part) is views.root_of(target):
        if isinstance(value, _NUMBERS):
            fill(part, value)
        else:
            copy(part, value, "assignment")
    else:  # refuses what overlaps
        with _counting(target):
            dispatch.call("setitem", target, key, value)


def _write(target: Any, value: Any, same_kind: bool, what: str = "") -> Any:
    name = what or "an in-place operation"
    if same_kind and dtypes.promote(target.dtype, value.dtype) != target.dtype and not _castable(value, target):
        raise DTypeError(f"{name}: a {value.dtype} result cannot be stored in a {target.dtype} tensor; use copy_()")
    if not _broadcasts(value.shape, target.shape):
        raise ShapeError(f"{name}: values of shape {value.shape} do not broadcast to the tensor of {target.shape}")
    if what != "fill_":  # one number for all is not ambiguous
        views.check_writable(target)
    recorded = None
    if target._requires_grad or value._requires_grad or target._base is not None:
        recorded = gradients.registered()
    if recorded is None:
        _store(target, value)
        return target
    with recorded.writing(target, value, bool(what)) as placed:
        _store(target, placed)
    return target


@event
def restructure(target: Any, name: str, view: Callable[[Any], Any]) -> Any:
    """Gives ``target`` the shape and the strides of ``view(target)``, on the same storage; returns ``target``.

    While a graph is recorded, ``target`` becomes the result of the view. RuntimeError if it is a leaf that requires
    grad then, or the result of a recorded op while grad is disabled.
    """
    before_write(target)
    if target._base is not DATA:
        views.root_of(target).version += 1  # as PyTorch does, though no values change
    recorded = None
    if target._requires_grad or (target._base is not None and target._base is not DATA):
        recorded = gradients.registered()
    if recorded is not None:
        return recorded.restructured(target, name, view)
    result = view(target)
    target._storage, target.shape = result._storage, result.shape
    return target


@event
def detach(target: Any) -> Any:
    """Makes ``target`` a leaf that requires no grad; RuntimeError if it is a view, or has views in the graph."""
    recorded = gradients.registered() if target._base is not None and target._base is not DATA else None
    if recorded is not None:
        recorded.detached(target)
    target.grad_fn = None
    target.requires_grad = False
    return target


def _store(target: Any, value: Any) -> None:
    """Writes ``value`` into the memory of ``target``."""
    with _counting(target):
        if not (type(target._storage) is views.ViewStorage and views.store(target, value)):
            if value.shape != target.shape:
                value = dispatch.call("expand", value, target.shape)
            dispatch.assign(target, value)


def _counting(target: Any) -> AbstractContextManager[None]:
    """A scope in which ``target`` is written; the write is not counted if it is the data of a tensor."""
    return views.uncounted(target) if target._base is DATA else _COUNTED


@event
def data_of(tensor: Any) -> Any:
    """A tensor on the storage of ``tensor`` outside of the graph; writes into it are not counted as writes in place."""
    alias = tensor.detach()
    alias._base = DATA
    return alias


@event
def set_data(tensor: Any, data: Any) -> None:
    """Puts ``tensor`` on the storage of ``data``, with the shape and dtype of ``data``.

    DTypeError if a tensor that requires grad would become an integer tensor; RuntimeError for the result of an op.
    """
    if not isinstance(data, TensorData):
        raise TypeError(f"data: expected a Tensor, got {type(data).__name__}")
    if tensor._requires_grad and not dtypes.is_floating(data.dtype):
        raise DTypeError(f"the data of a tensor that requires grad cannot be {data.dtype}")
    before_write(tensor)
    alias: Any = data.detach()  # type: ignore[attr-defined]
    tensor.engine, tensor._storage, tensor.shape, tensor.dtype = alias.engine, alias._storage, alias.shape, alias.dtype
    tensor._base = None


@event
def read_gradient(tensor: Any) -> Any:
    """Returns ``grad`` of a leaf: an event once a backward pass is among the calls that are logged or predicted."""
    held = tensor._grad
    return held.grad if type(held) is gradients.Shared else held


@event
def set_gradient(tensor: Any, grad: Any) -> None:
    """Sets ``grad`` of a leaf."""
    if type(tensor._grad) is gradients.Shared:
        tensor._grad.grad = grad
    else:
        tensor._grad = grad


set_gradient.__wrapped__.changes_gradients = True  # type: ignore[attr-defined]


def _operand(target: Any, value: Any) -> Any:
    """``value`` as a tensor on the device of ``target``."""
    engine = target.engine
    if isinstance(value, TensorData):
        if value.engine is not engine:
            if value.size == 1:
                return engine.receive(value)
            raise BackendMismatchError(
                f"writing in place: the values are on {value.engine.device_label}, the tensor is on "
                f"{engine.device_label}; move them with to(device)"
            )
        return value
    if isinstance(value, _NUMBERS):
        number = value.item() if isinstance(value, np.generic) else value
        source = engine.empty((), dtypes.promote(target.dtype, type(number)))
        engine.fill(source, number)  # which a capture records, unlike a copy from the host
        return source
    return engine.tensor(*to_storage(value, None))


_KIND = {"bool": 0}


def _kind(dtype: str) -> int:
    return 2 if dtypes.is_floating(dtype) else _KIND.get(dtype, 1)


def _castable(value: Any, target: Any) -> bool:
    return _kind(value.dtype) <= _kind(target.dtype)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(shape) > len(wanted):
        return False
    return all(size in (1, whole) for size, whole in zip(aligned(shape, len(wanted)), wanted))
