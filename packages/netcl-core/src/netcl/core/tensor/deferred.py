"""Deferred tensors: described but not computed; the first use of their storage materializes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl.core.storage.data import TensorData
from netcl.core.storage.gradients import LATER, RECORDED
from netcl.core.storage.storage import Computation as Computation
from netcl.core.storage.storage import Failed, Storage
from netcl.core.storage.storage import lock as lock


def is_deferred(value: Any) -> bool:
    """Returns True if the storage of the tensor ``value`` is still to be computed."""
    return isinstance(value, TensorData) and value._storage.deferred is not None


def make_deferred(
    like: Any, shape: tuple[int, ...], dtype: str, work: Computation, number: int, requires_grad: bool, recorded: bool
) -> Any:
    """A deferred tensor on the engine of the tensor ``like``: value ``number`` of ``work``.

    If it requires grad, its GradNode is made with the storage. ``recorded``: it is the result of a recorded op.
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


def computation_of(tensor: Any) -> tuple[Computation, int] | None:
    """The computation of a deferred tensor, and its number there; None if its storage is ready."""
    return tensor._storage.deferred  # type: ignore[no-any-return]


def resolve(tensor: Any, result: Any) -> None:
    """Resolves a deferred tensor: it and all others on its storage take over the memory of ``result``."""
    tensor._storage.fill(result._storage)


def make_alias(tensor: Any, result: Any) -> None:
    """Makes a deferred tensor an alias of ``result``'s storage."""
    resolve(tensor, result)  # for another thread that is waiting for it
    tensor._storage = result._storage


def alias_in_graph(tensor: Any, result: Any) -> None:
    """Makes a deferred tensor an alias of ``result``: the same storage and GradNode."""
    tensor._grad_fn = result._grad_fn
    make_alias(tensor, result)


def set_error(tensor: Any, error: BaseException) -> None:
    """Marks a deferred tensor as failed: each use of it raises the error."""
    tensor._storage.deferred = Failed(error), 0


def force(values: Sequence[Any]) -> None:
    """Materializes the deferred tensors among arguments, lists of tensors included."""
    for value in values:
        if isinstance(value, TensorData):
            if value._storage.deferred is not None:
                value._storage.materialize()
        elif isinstance(value, (list, tuple)):
            force(value)
