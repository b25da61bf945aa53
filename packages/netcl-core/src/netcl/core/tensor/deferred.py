"""Pending tensors: described but not computed; whoever touches the storage of one has its work done first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from netcl.core.tensor_data import TensorData, TensorT


class Work(Protocol):
    """What computes pending tensors: afterwards each of them is an ordinary one."""

    def settle(self) -> None:
        """Computes all that is pending here."""
        ...


# Held while a call is noted down and while work is settled, as another thread may touch what is pending here. One for
# all, since threads that wait for each other's work would wait for ever.
lock: AbstractContextManager[bool] = threading.RLock()


class Pending:
    """Goes before a tensor class: its storage and its place in the gradient graph are made when asked for."""

    __slots__ = ()
    engine: Any
    shape: Any
    requires_grad: Any

    @property
    def buffer(self) -> Any:
        """The storage on OpenCL, computed now."""
        return _settled(self).buffer

    @property
    def array(self) -> Any:
        """The storage on NumPy, computed now."""
        return _settled(self).array

    @property
    def grad_fn(self) -> Any:
        """The step of the gradient graph, made now."""
        return _settled(self).grad_fn

    def wait(self) -> Any:
        """Computed now, and waited for as an ordinary tensor is."""
        return _settled(self).wait()


def _settled(tensor: Any) -> Any:
    with lock:
        if _is_pending(tensor):  # else another thread has just done it
            work = tensor.pending_release[0]
            work.settle()
            if _is_pending(tensor):
                raise RuntimeError(f"a tensor was left pending by {work!r}")
    return tensor


def _is_pending(tensor: Any) -> bool:
    return isinstance(tensor, Pending)


def pending_class(cls: type[TensorData]) -> type[TensorData]:
    """The pending form of a tensor class; the class itself, once computed."""
    plain: Any = cls.__dict__.get("requires_grad") or next(c.__dict__["requires_grad"] for c in cls.__mro__[1:-1])

    def make_leaf(tensor: Any, flag: bool) -> None:
        _settled(tensor).requires_grad = flag  # what was called before does not see the flag, as ever

    flag = property(plain.__get__, make_leaf)
    return type(f"Pending{cls.__name__}", (Pending, cls), {"__slots__": (), "requires_grad": flag})


def waiting_class(cls: type[TensorData]) -> type[TensorData]:
    """The pending form of a tensor whose place in the gradient graph is known: only its storage is made later."""
    found = _WAITING.get(cls)
    if found is None:
        own: Any = next(c for c in cls.__mro__ if "grad_fn" in c.__dict__)
        fields = {name: own.__dict__[name] for name in ("grad_fn", "requires_grad")}
        found = _WAITING[cls] = type(
            f"Waiting{cls.__name__}", (Pending, cls), {"__slots__": (), "plain": cls, **fields}
        )
    return found


_WAITING: dict[type[TensorData], type[TensorData]] = {}


def promise(
    tensor_class: type[TensorT],
    pending: type[TensorData],
    engine: Any,
    shape: tuple[int, ...],
    dtype: str,
    work: Work,
    place: int,
    requires_grad: bool,
) -> TensorT:
    """A pending tensor, number ``place`` of ``work``."""
    plain: Any = tensor_class
    tensor = plain._wrap(engine, shape, dtype, None, None, None)
    tensor.requires_grad = requires_grad
    tensor.pending_release = (work, place)  # no copy to the device is under way, so the field is free
    tensor.__class__ = pending
    return tensor  # type: ignore[no-any-return]


def work_of(tensor: Any) -> tuple[Work, int]:
    """Who computes a pending tensor, and its number there."""
    return tensor.pending_release  # type: ignore[no-any-return]


def fulfil(tensor: Any, tensor_class: type[TensorData], result: TensorData) -> None:
    """Gives a pending tensor the storage of ``result``, which becomes its own."""
    plain: Any = tensor_class
    tensor.pool_handle = result.pool_handle
    plain.buffer.__set__(tensor, result.buffer)  # past the properties of the pending class
    plain.array.__set__(tensor, result.array)
    tensor.__class__ = tensor_class  # last, since other threads ask for no lock from here on
    tensor.pending_release = None


def rename(tensor: Any, tensor_class: type[TensorData], result: TensorData) -> None:
    """Makes a pending tensor another name of ``result``'s storage."""
    tensor._version = result._version
    fulfil(tensor, tensor_class, result)


def share(tensor: Any, tensor_class: type[TensorData], result: Any) -> None:
    """Makes a pending tensor another name of ``result``: the same storage, version and place in the graph."""
    plain: Any = tensor_class
    plain.grad_fn.__set__(tensor, result.grad_fn)
    rename(tensor, tensor_class, result)


def give_up(tensor: Any, error: BaseException) -> None:
    """Says that a pending tensor could not be computed: whoever touches it gets the error."""
    tensor.pending_release = (_Failed(error), 0)


def touch(values: Sequence[Any]) -> None:
    """Settles what is pending among arguments, lists of tensors included."""
    for value in values:
        if isinstance(value, Pending):
            work_of(value)[0].settle()
        elif isinstance(value, (list, tuple)):
            touch(value)


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def settle(self) -> None:
        raise RuntimeError(f"this tensor could not be computed: {self._error}") from self._error


__all__ = [
    "Pending",
    "Work",
    "fulfil",
    "give_up",
    "lock",
    "pending_class",
    "promise",
    "rename",
    "share",
    "touch",
    "waiting_class",
    "work_of",
]
