"""Deferred tensors: described but not computed; to access the storage of one computes it first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl.core.tensor.data import TensorData
from netcl.core.tensor.gradients import LATER, RECORDED
from netcl.core.tensor.storage import Failed, Storage, Work, lock


def is_deferred(value: Any) -> bool:
    """True if ``value`` is a tensor with storage that is still to be computed."""
    return isinstance(value, TensorData) and value._storage.deferred is not None


def promise(
    like: Any, shape: tuple[int, ...], dtype: str, work: Work, number: int, requires_grad: bool, recorded: bool
) -> Any:
    """A deferred tensor on the engine of the tensor ``like``: value ``number`` of ``work``.

    If it requires grad, its place in the gradient graph is made with the storage. ``recorded``: a recorded op gave it.
    """
    storage = Storage.of(None, None, None)
    storage.deferred = work, number
    tensor = like._on(storage, shape, dtype)
    if requires_grad:
        tensor._requires_grad = True
        tensor._grad_fn = LATER
    elif recorded:
        tensor._grad_fn = RECORDED
    return tensor


def work_of(tensor: Any) -> tuple[Work, int] | None:
    """Who computes a deferred tensor, and its number there; None for a tensor whose storage is there."""
    return tensor._storage.deferred  # type: ignore[no-any-return]


def fulfil(tensor: Any, result: Any) -> None:
    """Gives a deferred tensor, and all others on its storage, the memory of ``result``, which becomes its own."""
    tensor._storage.fill(result._storage)


def rename(tensor: Any, result: Any) -> None:
    """Makes a deferred tensor another name of ``result``'s storage."""
    fulfil(tensor, result)  # for another thread that is waiting for it
    tensor._storage = result._storage


def share(tensor: Any, result: Any) -> None:
    """Makes a deferred tensor another name of ``result``: the same storage and place in the graph."""
    tensor._grad_fn = result._grad_fn
    rename(tensor, result)


def give_up(tensor: Any, error: BaseException) -> None:
    """Says that a deferred tensor could not be computed: each access raises the error."""
    tensor._storage.deferred = Failed(error), 0


def touch(values: Sequence[Any]) -> None:
    """Settles what is deferred among arguments, lists of tensors included."""
    for value in values:
        if isinstance(value, TensorData):
            deferred = value._storage.deferred
            if deferred is not None:
                deferred[0].settle()
        elif isinstance(value, (list, tuple)):
            touch(value)


__all__ = [
    "Work",
    "fulfil",
    "give_up",
    "is_deferred",
    "lock",
    "promise",
    "rename",
    "share",
    "touch",
    "work_of",
]
